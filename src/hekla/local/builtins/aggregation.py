"""ClusterRoles made of others get the rules of those their selectors choose, now and whenever one changes."""

from __future__ import annotations

import asyncio
import random

from hekla.api.kinds import CLUSTER_ROLE
from hekla.api.meta import name_of
from hekla.api.rbac import aggregated_rules
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("aggregation")


class AggregationController:
    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._roles = Informer(client, CLUSTER_ROLE, rng=rng)
        self._queue: WorkQueue[str] = WorkQueue()

    async def run(self) -> None:
        self._roles.subscribe(self._observe)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._roles.run())
                await self._roles.synced()
                group.create_task(work(self._queue, self._reconcile, log))
        finally:
            self._queue.close()

    def _observe(self, _update: Update) -> None:
        # Which roles a change concerns depends on labels old and new; there are few that aggregate.
        for role in self._roles.all():
            if role.get("aggregationRule"):
                self._queue.add(name_of(role))

    async def _reconcile(self, name: str) -> None:
        role = self._roles.get(name)
        rules = aggregated_rules(role, self._roles.all()) if role is not None else None
        if role is None or rules is None or rules == (role.get("rules") or []):
            return
        await self._client.update(CLUSTER_ROLE, {**role, "rules": rules})
