"""What hangs below an object: status, scale, binding, eviction, finalize, log, exec, attach, portforward, token."""

from __future__ import annotations

import contextlib
from typing import Any

from hekla.api.kinds import NAMESPACE, POD, Kind, Obj
from hekla.api.meta import timestamp
from hekla.apiserver.access.token_requests import TokenRequests
from hekla.apiserver.connecting import refuse_plain
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.deleting import is_finished
from hekla.apiserver.evicting import Evictions
from hekla.apiserver.invalid import required, unsupported
from hekla.apiserver.logs import (
    EarlierLog,
    LogProxy,
    check_started,
    chosen_container,
    earlier_log,
    kept_sources,
    log_of_gone_pod,
    log_source,
)
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, conflict, json_response, no_such_path, not_found, success_status
from hekla.apiserver.resource import Resource
from hekla.apiserver.scale import Scales
from hekla.apiserver.shaping import WrongType, decode_shape
from hekla.apiserver.store.store import Entry, Key, Remove, Store
from hekla.apiserver.verbs import Verbs
from hekla.apiserver.writing import Malformed, Writer
from hekla.clock import Clock
from hekla.errors import ApiError, BadRequest, Conflict, MethodNotAllowed

_BINDING = Resource(Kind("", "v1", "Binding", "bindings"))


class Subresources:
    def __init__(
        self,
        store: Store,
        writer: Writer,
        verbs: Verbs,
        *,
        clock: Clock,
        logs: LogProxy | None,
        token_requests: TokenRequests,
    ) -> None:
        self._store = store
        self._writer = writer
        self._verbs = verbs
        self._scales = Scales(store, writer)
        self._evictions = Evictions(store, writer, clock=clock)
        self._clock = clock
        self._logs = logs
        self._token_requests = token_requests

    async def answer(self, resource: Resource, route: Route, request: Request) -> Response:
        if route.subresource not in resource.kind.subresources:
            # parity: of a custom resource the object is what is not found, whether it is there or not.
            raise not_found(resource.kind, route.name) if resource.is_custom else no_such_path()
        match request.method, route.subresource:
            case _, "scale":
                return await self._scales.answer(resource, route, request)
            case "GET", "status":
                return await self._verbs.get(resource, route, request)
            case "PUT", "status":
                return await self._verbs.update(resource, route, request)
            case "PATCH", "status":
                return await self._verbs.patch(resource, route, request)
            case "PUT", "finalize":
                return await self._finalize(route, request)
            case "POST", "binding":
                return await self._bind(resource, route, request)
            case "POST", "eviction":
                return await self._evictions.answer(resource, route, request)
            case "POST", "token":
                return self._token_requests.answer(route, request)
            case "GET", "log":
                return await self._log(resource, route, request)
            case "GET" | "POST", "exec" | "attach" | "portforward":
                # Requests for another protocol do not come this way: see `connecting.py`.
                raise refuse_plain(self._store, route, list(request.query.items()))
        raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})

    async def _bind(self, resource: Resource, route: Route, request: Request) -> Response:
        binding = decode_object(request, "Binding")
        check_binding(binding)
        target = binding.get("target") or {}
        if not target.get("name"):
            # parity: the real server answers 500 here.
            raise ApiError(str(required("target.name")), reason="")
        if target.get("kind") not in (None, "", "Node"):
            raise ApiError(str(unsupported("target.kind", target["kind"], ("Node", "<empty>"))), reason="")
        bind = Bind(route.name, binding, timestamp(self._clock.now()))
        key = Key(resource.storage, route.namespace, route.name)
        if request.dry_run:
            bind(self._store.newest(key))
        else:
            await self._store.write(key, bind)
        return json_response(success_status(code=201), 201)

    async def _finalize(self, route: Route, request: Request) -> Response:
        """Replace a namespace's `spec.finalizers`; the last one gone, a deleted namespace goes too."""
        wanted = decode_object(request, NAMESPACE.kind)
        entry = await self._store.write(Key("/namespaces", "", route.name), _Finalize(route.name, wanted))
        return Response(200, entry.value)

    async def _log(self, resource: Resource, route: Route, request: Request) -> Response:
        entry = self._store.get(Key(resource.storage, route.namespace, route.name))
        if entry is None:
            gone = log_of_gone_pod(request.query)
            kept = await self._kept_log(route, request, gone, request.query["container"]) if gone is not None else None
            if kept is None:
                raise not_found(resource.kind, route.name)
            return kept
        pod = entry.decode()
        node_name = (pod.get("spec") or {}).get("nodeName") or ""
        node = self._store.get(Key("/nodes", "", node_name)) if node_name else None
        source = log_source(pod, node.decode() if node is not None else None, request.query)
        if source is None:
            earlier = earlier_log(pod, request.query)
            container = chosen_container(pod, request.query.get("container", ""))
            kept = await self._kept_log(route, request, earlier, container) if earlier is not None else None
            # parity: a pod that is on no node yet has an empty log.
            return kept or Response(204, b"", "text/plain")
        if self._logs is None:
            raise BadRequest("this server has no connection to nodes")
        try:
            return await self._logs.open(source)
        except ApiError:
            # Who asked for the log before, and there is none, hears what the container waits for.
            check_started(pod, chosen_container(pod, request.query.get("container", "")))
            raise

    async def _kept_log(self, route: Route, request: Request, earlier: EarlierLog, container: str) -> Response | None:
        """What a node has kept of an earlier pod of that name; None when none has."""
        if self._logs is None:
            return None
        nodes = [entry.decode() for entry in self._store.entries("/nodes")]
        for source in kept_sources(nodes, route.namespace, route.name, container, request.query, earlier):
            with contextlib.suppress(ApiError):
                return await self._logs.open(source)
        return None


def check_binding(binding: Obj) -> None:
    """What it says of itself is written into the pod. Raises Malformed."""
    try:
        decode_shape(binding, _BINDING.schema, [])
    except WrongType as error:
        raise Malformed(_BINDING.kind, str(error)) from None


class Bind:
    """A guard: the pod on its node, unless it must not be."""

    def __init__(self, name: str, binding: Obj, now: str) -> None:
        self._name = name
        self._binding = binding
        self._now = now

    def __call__(self, current: Entry | None) -> Obj:
        if current is None:
            raise not_found(POD, self._name)
        pod = current.decode()
        self._check(pod)
        pod["spec"]["nodeName"] = self._binding["target"]["name"]
        annotations = (self._binding.get("metadata") or {}).get("annotations")
        if annotations:
            pod["metadata"].setdefault("annotations", {}).update(annotations)
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)  # it has a node: for which one room was made is history
        _set_scheduled(status, self._now)
        return pod

    def _check(self, pod: Obj) -> None:
        wanted = self._binding.get("metadata") or {}
        metadata = pod["metadata"]
        for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(field) and wanted[field] != metadata[field]:
                raise conflict(
                    POD,
                    self._name,
                    f"StorageError: invalid object, Code: 4, Key: /registry/pods/{metadata['namespace']}/{self._name}, "
                    f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {title} in precondition: "
                    f"{wanted[field]}, {title} in object meta: {metadata[field]}",
                )
        if metadata.get("deletionTimestamp"):
            raise self._refused(f"pod {self._name} is being deleted, cannot be assigned to a host")
        node = pod["spec"].get("nodeName")
        if node:
            raise self._refused(f'pod {self._name} is already assigned to node "{node}"')
        if pod["spec"].get("schedulingGates"):
            raise self._refused(f"pod {self._name} has non-empty .spec.schedulingGates")

    def _refused(self, why: str) -> Conflict:
        return Conflict(
            f'Operation cannot be fulfilled on pods/binding "{self._name}": {why}',
            details={"name": self._name, "kind": "pods/binding"},
        )


class _Finalize:
    def __init__(self, name: str, wanted: Obj) -> None:
        self._name = name
        self._wanted = wanted

    def __call__(self, current: Entry | None) -> Obj | Remove:
        if current is None:
            raise not_found(NAMESPACE, self._name)
        namespace = current.decode()
        finalizers = (self._wanted.get("spec") or {}).get("finalizers") or []
        if finalizers:
            namespace.setdefault("spec", {})["finalizers"] = finalizers
        else:
            namespace.setdefault("spec", {}).pop("finalizers", None)
        return Remove(namespace) if is_finished(namespace) else namespace


def _set_scheduled(status: Obj, now: str) -> None:
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = status.setdefault("conditions", [])
    for index, each in enumerate(conditions):
        if each.get("type") == "PodScheduled":
            conditions[index] = condition
            return
    conditions.append(condition)
