"""`scale`: how many of something there should be, seen and changed without knowing what it is."""

from __future__ import annotations

from typing import Any

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.selector import Operator, Requirement, label_selector_from
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.invalid import invalid, refusal
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response, modified, not_found
from hekla.apiserver.resource import Resource
from hekla.apiserver.shaping import WrongType, decode_shape
from hekla.apiserver.store.store import Key, Store
from hekla.apiserver.transforms import Patch, Replacement, read_patch
from hekla.apiserver.verbs import check_type, metadata_of, read_write_options
from hekla.apiserver.writing import Malformed, Writer
from hekla.errors import BadRequest, MethodNotAllowed

SCALE = Kind("autoscaling", "v1", "Scale", "scales")
_RESOURCE = Resource(SCALE)
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}


class Scales:
    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def answer(self, resource: Resource, route: Route, request: Request) -> Response:
        key = Key(resource.storage, route.namespace if resource.kind.namespaced else "", route.name)
        if request.method == "GET":
            entry = self._store.get(key)
            if entry is None:
                raise not_found(resource.kind, route.name)
            return json_response(scale_of(entry.decode(), resource))
        rescale = _Rescale(resource, _wish(route, request))
        options = read_write_options(request)
        written = await self._writer.update(resource, key, rescale, options, subresource="scale")
        return json_response(scale_of(msgspec.json.decode(written.value), resource))


def scale_of(obj: Obj, resource: Resource) -> Obj:
    paths = _paths(resource)
    replicas = _get(obj, paths["specReplicasPath"])
    status: Obj = {"replicas": int(_get(obj, paths["statusReplicasPath"]) or 0)}
    selector = _get(obj, paths.get("labelSelectorPath", ""))
    if selector:
        status["selector"] = selector if isinstance(selector, str) else selector_text(selector)
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {name: obj["metadata"][name] for name in _METADATA if name in obj["metadata"]},
        "spec": {"replicas": int(replicas)} if replicas else {},
        "status": status,
    }


def selector_text(selector: Obj) -> str:
    """A selector as an object, written as the text that means the same."""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        # A ReplicationController has plain labels.
        selector = {"matchLabels": selector}
    found = label_selector_from(selector)
    return ",".join(_words(each) for each in sorted(found.requirements if found else (), key=lambda each: each.key))


def _words(requirement: Requirement) -> str:
    key, values = requirement.key, sorted(requirement.values)
    match requirement.operator:
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"!{key}"
        case Operator.IN if len(values) == 1:
            return f"{key}={values[0]}"
        case Operator.IN:
            return f"{key} in ({','.join(values)})"
    return f"{key} notin ({','.join(values)})"


class _Rescale:
    """The object with another number of replicas. What is wanted is wanted of its scale, not of the object."""

    reads_current = True

    def __init__(self, resource: Resource, wish: Patch | Replacement) -> None:
        self._resource = resource
        self._wish = wish

    def __call__(self, current: Obj) -> Obj:
        wanted = self._wish(scale_of(current, self._resource))
        self._check_shape(wanted)
        name = current["metadata"]["name"]
        revision = metadata_of(wanted).get("resourceVersion")
        if revision and revision != current["metadata"]["resourceVersion"]:
            raise modified(self._resource.kind, name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise refusal(SCALE, name, [problem])
        _set(current, _paths(self._resource)["specReplicasPath"], replicas)
        return current

    def _check_shape(self, wanted: Obj) -> None:
        try:
            decode_shape(wanted, _RESOURCE.schema, [])
        except WrongType as error:
            if isinstance(self._wish, Patch):
                raise self._wish.refused(str(error)) from None
            raise Malformed(SCALE, str(error)) from None


def _wish(route: Route, request: Request) -> Patch | Replacement:
    if request.method == "PATCH":
        style, patch = read_patch(_RESOURCE, request)
        if style.startswith("apply-patch"):
            # An applied scale is the wish for its replicas; who owns them is not recorded.
            style = "merge-patch+json"
        return Patch(style, patch, _RESOURCE, route.name)
    if request.method != "PUT":
        raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
    scale = decode_object(request, SCALE.kind)
    check_type(scale, _RESOURCE)
    name = metadata_of(scale).get("name")
    if name != route.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
    return Replacement(scale)


def _paths(resource: Resource) -> dict[str, str]:
    """Where the object keeps its numbers: a definition says it, Kubernetes' own kinds agree about it."""
    return dict(resource.version["subresources"]["scale"]) if resource.is_custom else _PATHS


def _get(obj: Obj, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _set(obj: Obj, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value
