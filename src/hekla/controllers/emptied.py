"""The PodGroup of a ReplicaSet or StatefulSet that was scaled to nothing goes; the next pod brings a new one.

A group that stayed would keep its queue from closing. The workload is asked only when the last pod of a group has gone,
so that no workload has to be watched.
"""

from __future__ import annotations

from hekla.api.kinds import POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind
from hekla.api.meta import Key, controller_of, is_deleting, key_of, uid_of
from hekla.api.scheduling import BARE_GROUP_PREFIX
from hekla.client.informer import Update
from hekla.client.rest import Client
from hekla.controllers.runner import Runner
from hekla.controllers.sources import BARE_OWNER, Sources, owned_in
from hekla.errors import NotFound

_SCALED: tuple[Kind, ...] = (REPLICA_SET, STATEFUL_SET)


class EmptiedGroupController:
    def __init__(self, client: Client, sources: Sources) -> None:
        self._client = client
        self._pods = sources.pods
        self._groups = sources.groups
        self.runner = Runner("emptied group", self.reconcile)
        sources.pods.subscribe(self._pod_changed)
        sources.groups.subscribe(self._group_changed)

    async def reconcile(self, key: Key) -> float | None:
        group = self._groups.get(key.name, key.namespace)
        owner = controller_of(group) if group is not None else None
        kind = next((kind for kind in _SCALED if owner is not None and kind.owns_reference(owner)), None)
        if group is None or owner is None or kind is None or is_deleting(group):
            return None
        if self._pods.by_index(BARE_OWNER, owned_in(key.namespace, owner["uid"])):
            return None
        workload = await self._client.find(kind, owner["name"], key.namespace)
        if workload is None or uid_of(workload) != owner["uid"] or workload["spec"].get("replicas", 1) != 0:
            return None
        try:
            await self._client.delete(POD_GROUP, key.name, key.namespace, uid=uid_of(group))
        except NotFound:
            return None
        self.runner.deleted(key, self._groups, key, uid_of(group))
        return None

    def _pod_changed(self, update: Update) -> None:
        owner = controller_of(update.obj) if update.new is None else None
        if owner is not None and any(kind.owns_reference(owner) for kind in _SCALED):
            self.runner.enqueue(Key(key_of(update.obj).namespace, BARE_GROUP_PREFIX + owner["uid"]))

    def _group_changed(self, update: Update) -> None:
        """One that was there before us may have been emptied while nobody looked."""
        if (
            update.old is None
            and update.new is not None
            and update.new["metadata"]["name"].startswith(BARE_GROUP_PREFIX)
        ):
            self.runner.enqueue(key_of(update.new))
