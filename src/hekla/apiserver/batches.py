"""Many writes in one request and one transaction: `hekla.dev/v1`, which clients find through discovery.

    ObjectBatch   {"items": [objects to create]}                              -> {"results": [{"object"} or {"status"}]}
    BindingBatch  {"items": [Bindings], "allOrNothing": true}                 -> {"results": [{} or {"status"}]}

Every item goes the way it would go alone: permission, shape, admission, checks. All-or-nothing bindings are also held
against the room of their nodes, in the order of the writes, so that no two schedulers can fill a node twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from hekla.api.batches import BATCH_GROUP, BINDING_BATCH, OBJECT_BATCH
from hekla.api.kinds import POD, Obj
from hekla.api.meta import timestamp
from hekla.apiserver.access.access import Access
from hekla.apiserver.access.attributes import Attributes
from hekla.apiserver.access.user import User
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response, no_such_path
from hekla.apiserver.resource import Registry, Resource
from hekla.apiserver.room import Claims, Needs, Room, needs_of
from hekla.apiserver.store.store import Entry, Key, Store
from hekla.apiserver.subresource import Bind, check_binding
from hekla.apiserver.writing import Wanted, Writer
from hekla.clock import Clock
from hekla.errors import ApiError, BadRequest, Conflict, Forbidden

_PODS = f"{POD.group}/{POD.plural}"
_BETWEEN_BREATHS = 64


class Batches:
    def __init__(self, store: Store, registry: Registry, writer: Writer, access: Access, *, clock: Clock) -> None:
        self._store = store
        self._access = access
        self._registry = registry
        self._writer = writer
        self._clock = clock
        self._room = Room(store)

    async def answer(self, route: Route, request: Request) -> Response:
        if (route.group, route.version) != (BATCH_GROUP, OBJECT_BATCH.version) or request.method != "POST":
            raise no_such_path()
        if route.plural == OBJECT_BATCH.plural:
            return await self._create(_items(decode_object(request, OBJECT_BATCH.kind)), request.user)
        if route.plural == BINDING_BATCH.plural:
            batch = decode_object(request, BINDING_BATCH.kind)
            return await self._bind(_items(batch), request.user, together=bool(batch.get("allOrNothing")))
        raise no_such_path()

    async def _create(self, items: list[Any], user: User) -> Response:
        known: dict[tuple[str, str], Resource | None] = {}
        results = await self._writer.create_all([self._wanted(item, known, user) for item in items], user)
        shown = [
            {"status": result.to_status()} if isinstance(result, ApiError) else {"object": msgspec.Raw(result)}
            for result in results
        ]
        return _answer(OBJECT_BATCH.kind, shown)

    def _wanted(self, obj: Any, known: dict[tuple[str, str], Resource | None], user: User) -> Wanted | ApiError:
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            return BadRequest("every item of a batch is an object with metadata")
        type_ = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
        if type_ not in known:
            known[type_] = self._registry.find_kind(*type_)
        resource = known[type_]
        if resource is None:
            return no_such_path()
        namespace = str(obj["metadata"].get("namespace") or "default") if resource.kind.namespaced else ""
        try:
            self._access.permit(user, Attributes("create", resource.kind.group, resource.kind.plural, "", namespace))
        except Forbidden as error:
            return error
        return Wanted(resource, namespace, obj)

    async def _bind(self, items: list[Any], user: User, *, together: bool) -> Response:
        binds = [self._prepared(item) for item in items]
        for namespace in {bind.key.namespace for bind in binds}:
            self._access.permit(user, Attributes("create", POD.group, POD.plural, "binding", namespace))
        if together and len({bind.key for bind in binds}) < len(binds):
            raise BadRequest("a pod occurs twice in an all-or-nothing batch")
        # What costs time is done ahead, with turns for others; nothing may come between what follows.
        for place, bind in enumerate(binds):
            bind.prepare(self._store.newest(bind.key))
            if place % _BETWEEN_BREATHS == _BETWEEN_BREATHS - 1:
                await asyncio.sleep(0)
        claims = self._room.claims() if together else None
        for bind in binds:
            bind.claims = claims
        results = await self._store.write_all([(bind.key, bind) for bind in binds], together=together)
        refused = sum(isinstance(result, Exception) for result in results)
        return _answer(BINDING_BATCH.kind, [_bound(result, refused) for result in results])

    def _prepared(self, item: Any) -> _BindWithRoom:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        target = item.get("target") if isinstance(item, dict) else None
        if not isinstance(metadata, dict) or not isinstance(target, dict) or not target.get("name"):
            raise BadRequest("every item of a batch is a Binding with metadata and target")
        check_binding(item)
        key = Key(_PODS, str(metadata.get("namespace") or "default"), str(metadata.get("name", "")))
        return _BindWithRoom(key, item, timestamp(self._clock.now()))


class _BindWithRoom:
    """A guard: what `Bind` decides, provided its node has room. What was prepared holds while the pod is the same."""

    def __init__(self, key: Key, binding: Obj, now: str) -> None:
        self.key = key
        self.claims: Claims | None = None
        self._node = str(binding["target"]["name"])
        self._bind = Bind(key.name, binding, now)
        self._seen: Entry | None = None
        self._bound: tuple[Obj, Needs] | None = None

    def prepare(self, current: Entry | None) -> None:
        try:
            bound = self._bind(current)
        except ApiError:
            # It may be otherwise when it counts.
            return
        self._seen, self._bound = current, (bound, needs_of(bound))

    def __call__(self, current: Entry | None) -> Obj:
        if self._bound is None or current is not self._seen:
            bound = self._bind(current)
            self._bound = bound, needs_of(bound)
        bound, needs = self._bound
        why = self.claims.take(self._node, needs) if self.claims is not None else ""
        if why:
            name = self.key.name
            raise Conflict(
                f'Operation cannot be fulfilled on pods/binding "{name}": {why}',
                details={"name": name, "kind": "pods/binding", "causes": [{"reason": "NoRoom", "message": why}]},
            )
        return bound


def _items(batch: Obj) -> list[Any]:
    items = batch.get("items")
    if not isinstance(items, list):
        raise BadRequest("a batch has items")
    return items


def _bound(result: Entry | Exception | None, refused: int) -> Obj:
    if isinstance(result, Entry):
        return {}
    if result is None:
        why = f"nothing was bound: {refused} others of the same batch were refused"
        return {"status": Conflict(why, details={"kind": "pods/binding"}).to_status()}
    if isinstance(result, ApiError):
        return {"status": result.to_status()}
    raise result


def _answer(kind: str, results: list[Obj]) -> Response:
    return json_response({"kind": kind, "apiVersion": OBJECT_BATCH.api_version, "results": results})
