"""Owner garbage collection: what has no owner left goes, in the background, in the foreground, or is orphaned.

Identity is the uid. Nothing is collected on the word of a watch alone: an owner counts as absent only after the
server, asked directly, does not have it.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from hekla.client.informer import Informer, Update
from hekla.client.metadata import MetadataTransport
from hekla.client.rest import Client, PatchStyle
from hekla.client.workqueue import WorkQueue
from hekla.errors import ApiError, Disconnected, HeklaError, NotFound
from hekla.local.builtins.graph import FOREGROUND, ORPHAN, Fate, Graph, Item, decide, gone_owners, item_of
from hekla.local.builtins.resources import discover
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("garbage")

_WORKERS = 20
_ABSENT_KEPT = 1000
_DISCOVERY_RETRY_SECONDS = 1.0
_UNSEEN_OWNER_SECONDS = 5.0


class UnknownOwner(HeklaError):
    """An owner is of a kind the server does not serve: whether it exists cannot be told."""


class GarbageCollector:
    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._view = Client(MetadataTransport(client.transport), user_agent="hekla-garbage")
        self._rng = rng
        self._graph = Graph()
        self._queue: WorkQueue[str] = WorkQueue()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._informers: dict[Kind, Informer] = {}
        self._watching: dict[Kind, asyncio.Task[None]] = {}
        self._absent: dict[str, None] = {}
        self._definitions_changed = asyncio.Event()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                # Kinds come and go with definitions; the copy of everything must be whole before anything is judged.
                await self._follow_kinds(group)
                await asyncio.gather(*(informer.synced() for informer in self._informers.values()))
                group.create_task(self._follow_definitions(group))
                for _ in range(_WORKERS):
                    group.create_task(work(self._queue, self._reconcile, log))
        finally:
            self._queue.close()

    async def _follow_definitions(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._definitions_changed.wait()
            self._definitions_changed.clear()
            await self._follow_kinds(group)

    async def _follow_kinds(self, group: asyncio.TaskGroup) -> None:
        """Watch every kind there is now, and no other."""
        kinds = await self._discover()
        self._kinds = {(kind.api_version, kind.kind): kind for kind in kinds}
        for kind in [kind for kind in self._watching if kind not in kinds]:
            self._watching.pop(kind).cancel()
            for obj in self._informers.pop(kind).all():
                self._observe(kind, Update(obj, None))
        for kind in kinds:
            if kind not in self._watching:
                informer = Informer(self._view, kind, rng=self._rng)
                informer.subscribe(partial(self._observe, kind))
                self._informers[kind] = informer
                self._watching[kind] = group.create_task(informer.run())

    async def _discover(self) -> list[Kind]:
        while True:
            try:
                return await discover(self._client)
            except (ApiError, Disconnected) as error:
                log.debug("discovery failed", error=error)
                await asyncio.sleep(_DISCOVERY_RETRY_SECONDS)

    def _observe(self, kind: Kind, update: Update) -> None:
        if kind.plural == CUSTOM_RESOURCE_DEFINITION.plural and kind.group == CUSTOM_RESOURCE_DEFINITION.group:
            self._definitions_changed.set()
        item = item_of(kind, update.obj)
        if update.new is None:
            self._graph.remove(item.uid)
            for dependent in self._graph.dependents(item.uid):
                self._queue.add(dependent.uid)
        else:
            self._graph.put(item)
            self._queue.add(item.uid)
        # An owner that was dropped may have waited for this, too.
        before = item_of(kind, update.old).owners if update.old is not None else ()
        for owner in (*item.owners, *before):
            holder = self._graph.get(owner["uid"])
            if holder is not None and (holder.deletes_foreground or holder.orphans):
                self._queue.add(holder.uid)

    async def _reconcile(self, uid: str) -> None:
        item = self._graph.get(uid)
        if item is None:
            return
        if item.orphans:
            await self._orphan(item)
        elif item.deletes_foreground:
            await self._finish_foreground(item)
        elif item.owners and not item.deleting:
            await self._collect(item)

    async def _collect(self, item: Item) -> None:
        absent = frozenset([owner["uid"] for owner in item.owners if await self._is_absent(item, owner)])
        match decide(item, absent, self._graph):
            case Fate.DELETE:
                await self._delete(item, "")
            case Fate.DELETE_FOREGROUND:
                await self._delete(item, "Foreground")
            case Fate.DROP_OWNERS:
                await self._drop_owners(item, gone_owners(item, absent, self._graph))

    async def _is_absent(self, item: Item, owner: dict[str, str]) -> bool:
        uid = owner["uid"]
        if self._graph.get(uid) is not None:
            return False
        if uid in self._absent:
            return True
        kind = self._kinds.get((owner["apiVersion"], owner["kind"]))
        if kind is None:
            raise UnknownOwner(f"{item.name}: no kind {owner['kind']} in {owner['apiVersion']}")
        if kind.namespaced and not item.namespace:
            return False
        found = await self._client.find(kind, owner["name"], item.namespace or None)
        if found is not None and found["metadata"]["uid"] == uid:
            # Until it is seen, nobody tells of its going: with a list it may be missed altogether.
            self._queue.add_after(item.uid, _UNSEEN_OWNER_SECONDS)
            return False
        # Uids never come back: what is gone once need not be asked for again.
        self._absent[uid] = None
        if len(self._absent) > _ABSENT_KEPT:
            del self._absent[next(iter(self._absent))]
        return True

    async def _delete(self, item: Item, propagation: str) -> None:
        if not propagation:
            propagation = "Orphan" if ORPHAN in item.finalizers else "Background"
            propagation = "Foreground" if FOREGROUND in item.finalizers else propagation
        try:
            await self._client.delete(
                item.kind, item.name, item.namespace or None, uid=item.uid, propagation=propagation
            )
            log.debug("collected", kind=item.kind.plural, namespace=item.namespace, name=item.name)
        except NotFound:
            return

    async def _drop_owners(self, item: Item, gone: frozenset[str]) -> None:
        kept = [owner for owner in item.owners if owner["uid"] not in gone]
        await self._patch(item, {"ownerReferences": kept or None})

    async def _orphan(self, item: Item) -> None:
        for dependent in self._graph.dependents(item.uid):
            await self._drop_owners(dependent, frozenset({item.uid}))
        await self._remove_finalizer(item, ORPHAN)

    async def _finish_foreground(self, item: Item) -> None:
        blocking = self._graph.blocking(item.uid)
        if not blocking:
            await self._remove_finalizer(item, FOREGROUND)
        for dependent in self._graph.dependents(item.uid):
            self._queue.add(dependent.uid)

    async def _remove_finalizer(self, item: Item, finalizer: str) -> None:
        await self._patch(item, {"finalizers": [each for each in item.finalizers if each != finalizer] or None})

    async def _patch(self, item: Item, metadata: dict[str, object]) -> None:
        try:
            await self._client.patch(
                item.kind,
                item.name,
                {"metadata": {"uid": item.uid, **metadata}},
                item.namespace or None,
                style=PatchStyle.MERGE,
            )
        except NotFound:
            return
