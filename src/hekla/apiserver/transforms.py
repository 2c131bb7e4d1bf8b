"""What an update makes of an object: a replacement, a patch, or a configuration applied to it.

Each is called with the object as it is and may be called again when that has changed meanwhile.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.apply import apply_configuration
from hekla.apiserver.decoding import decode_document
from hekla.apiserver.invalid import invalid
from hekla.apiserver.patching import (
    MergeKeyMissing,
    PatchRefused,
    PatchTooLarge,
    json_patch,
    merge_patch,
    strategic_patch,
)
from hekla.apiserver.request import Request
from hekla.apiserver.resource import Resource
from hekla.clock import Clock
from hekla.errors import ApiError, BadRequest, Invalid, TooLarge, UnsupportedMediaType

_PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "apply-patch+json")


def read_patch(resource: Resource, request: Request) -> tuple[str, Any]:
    """The style of a patch (its media type without `application/`) and the patch itself."""
    style = request.content_type.removeprefix("application/")
    if style not in _PATCHES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    if style == "strategic-merge-patch+json" and resource.is_custom:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    try:
        return style, decode_document(request.body)
    except ValueError as error:
        raise BadRequest(f"error decoding patch: {error}") from None


class Replacement:
    """`obj` belongs to whoever asks first; who asks again gets one like it."""

    reads_current = False

    def __init__(self, obj: Obj) -> None:
        self._obj: Obj | None = obj
        self._value = msgspec.json.encode(obj)

    def __call__(self, current: Obj) -> Obj:
        obj, self._obj = self._obj, None
        if obj is None:
            obj = msgspec.json.decode(self._value)
        return obj


class Patch:
    reads_current = True

    def __init__(self, style: str, patch: Any, resource: Resource, name: str) -> None:
        self._style = style
        self._name = name
        self._patch = patch
        self._resource = resource
        self._patched: Obj = {}

    def __call__(self, current: Obj) -> Obj:
        try:
            result = self._result(current)
        except PatchTooLarge:
            raise TooLarge("The allowed maximum operations in a JSON patch is 10000, got more", details={}) from None
        except MergeKeyMissing as error:
            raise ApiError(str(error), reason="") from None
        except PatchRefused:
            raise Invalid("the server rejected our request due to an error in our request", details={}) from None
        if not isinstance(result, dict):
            raise BadRequest("the patch leaves no object")
        self._patched = result
        self._check_type(result)
        self._check_name(result)
        return result

    def refused(self, why: str) -> Invalid:
        """The answer to a patch whose result has not the shape of its kind."""
        shown = msgspec.json.encode(self._patched, order="sorted").decode()
        problem = invalid("patch", shown, why)
        cause = {"reason": problem.reason, "message": problem.message, "field": problem.field}
        # parity: this refusal names neither kind nor object.
        return Invalid(f' "" is invalid: {problem}', details={"causes": [cause]})

    def _check_type(self, result: Obj) -> None:
        kind = self._resource.kind
        if (result.get("apiVersion"), result.get("kind")) == (kind.api_version, kind.kind):
            return
        version, name = result.get("apiVersion"), result.get("kind")
        raise self.refused(
            f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )

    def _check_name(self, result: Obj) -> None:
        metadata = result.get("metadata") or {}
        if not isinstance(metadata, dict):
            kind = self._resource.kind.kind
            given = {bool: "bool", int: "number", float: "number", str: "string"}.get(type(metadata), "array")
            why = f"json: cannot unmarshal {given} into Go struct field {kind}.metadata of type v1.ObjectMeta"
            raise self.refused(why)
        name = metadata.get("name")
        if not name:
            raise BadRequest(
                f"the name of the object ({self._name} based on URL) was undeterminable: name must be provided"
            )
        if name != self._name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({self._name})")

    def _result(self, current: Obj) -> Any:
        if self._style == "json-patch+json":
            return json_patch(current, msgspec.json.decode(msgspec.json.encode(self._patch)))
        if not isinstance(self._patch, dict):
            raise BadRequest("json: cannot unmarshal into Go value of type map[string]interface {}")
        # Parts of the patch end up in the object, which later steps change: each attempt needs its own.
        patch = msgspec.json.decode(msgspec.json.encode(self._patch))
        if self._style == "merge-patch+json":
            return merge_patch(current, patch)
        return strategic_patch(current, patch, self._resource.schema)


class Apply:
    reads_current = True

    def __init__(
        self, resource: Resource, configuration: Obj, manager: str, force: bool, subresource: str, clock: Clock
    ) -> None:
        self._resource = resource
        self._value = msgspec.json.encode(configuration)
        self._manager = manager
        self._force = force
        self._subresource = subresource
        self._clock = clock

    def __call__(self, current: Obj) -> Obj:
        return apply_configuration(
            current,
            msgspec.json.decode(self._value),
            self._resource,
            manager=self._manager,
            force=self._force,
            subresource=self._subresource,
            now=self._clock.now(),
        )
