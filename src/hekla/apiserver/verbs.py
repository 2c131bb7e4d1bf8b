"""The verbs on a resource: each takes a request that has been routed and gives the answer."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.apply import apply_configuration
from hekla.apiserver.decoding import decode_body, decode_document, decode_object, duplicate_fields
from hekla.apiserver.deleting import read_options
from hekla.apiserver.invalid import invalid
from hekla.apiserver.listing import list_page, parse_revision, wait_for_revision
from hekla.apiserver.patching import (
    MergeKeyMissing,
    PatchRefused,
    PatchTooLarge,
    json_patch,
    merge_patch,
    strategic_patch,
)
from hekla.apiserver.path import Route
from hekla.apiserver.presenting import choose_presentation
from hekla.apiserver.request import (
    Request,
    Response,
    json_response,
    name_details,
    not_found,
    success_status,
)
from hekla.apiserver.resource import Resource
from hekla.apiserver.selecting import read_selection
from hekla.apiserver.store.store import Key, Store
from hekla.apiserver.watching import start_watch
from hekla.apiserver.writing import Malformed, Options, Writer, Written
from hekla.clock import Clock
from hekla.errors import ApiError, BadRequest, Invalid, MethodNotAllowed, NotFound, TooLarge, UnsupportedMediaType

_PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "apply-patch+json")
_RETURNS_OBJECT = frozenset({"/pods", "/services", "/serviceaccounts", "/persistentvolumeclaims"})


class Verbs:
    def __init__(self, store: Store, writer: Writer, *, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock
        self._rng = rng

    async def get(self, resource: Resource, route: Route, request: Request) -> Response:
        presentation = choose_presentation(resource, request, self._clock.now)
        revision = parse_revision(request.query.get("resourceVersion", ""))
        if revision:
            await wait_for_revision(self._store, resource, revision)
        entry = self._store.get(_key(resource, route))
        if entry is None:
            raise not_found(resource.kind, route.name)
        return Response(200, presentation.one(entry.value))

    async def list(self, resource: Resource, route: Route, request: Request) -> Response:
        """Lists, and watches when asked to."""
        selection = read_selection(resource, route.namespace, request.query, route.name)
        presentation = choose_presentation(resource, request, self._clock.now)
        if request.flag("watch"):
            lines = start_watch(self._store, selection, presentation, request, self._rng)
            return Response(200, stream=lines)
        return Response(200, presentation.page(await list_page(self._store, selection, request)))

    async def create(self, resource: Resource, route: Route, request: Request) -> Response:
        obj = decode_object(request, resource.kind.kind)
        check_type(obj, resource)
        _check_namespace(obj, resource, route)
        options = _options(request)
        written = await self._writer.create(resource, route.namespace or _namespace(obj, resource), obj, options)
        return self._answer(resource, request, written, options)

    async def update(self, resource: Resource, route: Route, request: Request) -> Response:
        obj = decode_object(request, resource.kind.kind)
        check_type(obj, resource)
        _check_namespace(obj, resource, route)
        name = metadata_of(obj).get("name")
        if name and name != route.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
        obj["metadata"] = {**metadata_of(obj), "name": route.name}
        options = _options(request)
        key = _key(resource, route)
        if resource.creates_on_update and not route.subresource and self._store.newest(key) is None:
            written = await self._writer.create(resource, route.namespace, obj, options)
        else:
            replacement = _Replacement(obj)
            written = await self._writer.update(resource, key, replacement, options, subresource=route.subresource)
        return self._answer(resource, request, written, options)

    async def patch(self, resource: Resource, route: Route, request: Request) -> Response:
        style = request.content_type.removeprefix("application/")
        if style not in _PATCHES:
            raise UnsupportedMediaType("415: Unsupported Media Type", details={})
        if style == "strategic-merge-patch+json" and resource.is_custom:
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )
        try:
            patch = decode_document(request.body)
        except ValueError as error:
            raise BadRequest(f"error decoding patch: {error}") from None
        options = _options(request)
        key = _key(resource, route)
        if style.startswith("apply-patch"):
            written = await self._apply(resource, route, request, patch, options)
        else:
            transform = _Patch(style, patch, resource, route.name)
            try:
                written = await self._writer.update(resource, key, transform, options, subresource=route.subresource)
            except Malformed as error:
                raise transform.refused(error.why) from None
        return self._answer(resource, request, written, options)

    async def delete(self, resource: Resource, route: Route, request: Request) -> Response:
        options = read_options(_delete_document(request), request.query)
        written = await self._writer.delete(resource, _key(resource, route), options)
        if written.removed and resource.storage not in _RETURNS_OBJECT:
            obj = msgspec.json.decode(written.value)
            details = {**name_details(resource.kind, route.name), "uid": obj["metadata"]["uid"]}
            return json_response(success_status(details))
        return Response(200, choose_presentation(resource, request, self._clock.now).one(written.value))

    async def delete_collection(self, resource: Resource, route: Route, request: Request) -> Response:
        selection = read_selection(resource, route.namespace, request.query)
        options = read_options(_delete_document(request), request.query)
        page = await list_page(self._store, selection, request)
        for entry in page.entries:
            try:
                await self._writer.delete(resource, entry.key, options)
            except NotFound:
                continue
        return Response(200, choose_presentation(resource, request, self._clock.now).page(page))

    async def _apply(self, resource: Resource, route: Route, request: Request, patch: Any, options: Options) -> Written:
        manager = request.query.get("fieldManager", "")
        if not isinstance(patch, dict):
            raise BadRequest("error decoding YAML: an apply configuration is an object")
        if not manager:
            why = "Required value: is required for apply patch"
            raise request.bad_option("fieldManager", why, "FieldValueRequired")
        check_type(patch, resource)
        _check_namespace(patch, resource, route)
        patch["metadata"] = {**metadata_of(patch), "name": route.name}
        apply = _Apply(resource, patch, manager, request.flag("force"), route.subresource, self._clock)
        key = _key(resource, route)
        if self._store.newest(key) is None:
            obj = apply({"metadata": {}})
            return await self._writer.create(resource, route.namespace, obj, options)
        return await self._writer.update(resource, key, apply, options, subresource=route.subresource)

    def _answer(self, resource: Resource, request: Request, written: Written, options: Options) -> Response:
        presentation = choose_presentation(resource, request, self._clock.now)
        response = Response(201 if written.created else 200, presentation.one(written.value))
        response.headers += [("warning", f'299 - "{_escape(each)}"') for each in options.warnings]
        return response


class _Replacement:
    def __init__(self, obj: Obj) -> None:
        self._value = msgspec.json.encode(obj)

    def __call__(self, current: Obj) -> Obj:
        obj: Obj = msgspec.json.decode(self._value)
        return obj


class _Patch:
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


class _Apply:
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


def check_type(obj: Obj, resource: Resource) -> None:
    """The body's own apiVersion and kind, where it has them, must be those of the path."""
    kind = resource.kind
    version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if name != kind.kind or version != kind.api_version:
        shown = str(version).rpartition("/")[2]
        raise BadRequest(
            f'{name} in version "{shown}" cannot be handled as a {kind.kind}: '
            f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )


def metadata_of(obj: Obj) -> Obj:
    """A body's metadata, empty where it has none; what else it may be is for the schema to refuse."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _check_namespace(obj: Obj, resource: Resource, route: Route) -> None:
    given = metadata_of(obj).get("namespace")
    if given and resource.kind.namespaced and route.namespace and given != route.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _namespace(obj: Obj, resource: Resource) -> str:
    if not resource.kind.namespaced:
        return ""
    raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def _key(resource: Resource, route: Route) -> Key:
    return Key(resource.storage, route.namespace if resource.kind.namespaced else "", route.name)


def _options(request: Request) -> Options:
    validation = request.query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        supported = '"", "Ignore", "Strict", "Warn"'
        raise request.bad_option("fieldValidation", f'Unsupported value: "{validation}": supported values: {supported}')
    options = Options(dry_run=request.dry_run, strict=validation == "Strict", quiet=validation == "Ignore")
    if validation in ("Warn", "Strict"):
        options.duplicates = duplicate_fields(request.body)
    return options


def _delete_document(request: Request) -> Obj:
    if not request.body:
        return {}
    try:
        document = decode_body(request)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if not isinstance(document, dict):
        raise BadRequest("the options of a delete are an object")
    return document


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
