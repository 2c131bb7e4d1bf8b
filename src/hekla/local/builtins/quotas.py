"""The status of ResourceQuotas: what they allow and how much of that is used, for people and schedulers to read.

What is counted here holds nobody back: the API server counts by itself when something is created. Only what quotas
name is followed, in their namespaces; without any quota there is nothing to do but to wait for one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

from hekla.api.kinds import BUILT_IN_KINDS, RESOURCE_QUOTA, Kind, Obj
from hekla.api.meta import Key, key_of, name_of
from hekla.api.pod_resources import Amounts, as_text
from hekla.api.quota import Quota, read_quota
from hekla.api.quota_tally import Tally
from hekla.api.quota_usage import CLAIMS, PODS, SERVICES
from hekla.client.informer import Informer, Update
from hekla.client.metadata import MetadataTransport
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.local.builtins.resources import discover
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("quotas")

# The first of a swarm of pods is told at once, so that schedulers are late by no more than need be; what comes within
# this time after is told together.
_SWARM_SECONDS = 0.02
# How often it is looked whether a kind that a quota names has come to be served.
_UNSERVED_SECONDS = 10.0
_WELL_KNOWN: Mapping[str, Kind] = {kind.resource: kind for kind in BUILT_IN_KINDS}


class QuotaController:
    def __init__(self, client: Client, *, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._quotas = Informer(client, RESOURCE_QUOTA, rng=rng)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._accounts: dict[Key, tuple[_Account, asyncio.Task[None]]] = {}
        self._told: dict[Key, float] = {}

    async def run(self) -> None:
        self._quotas.subscribe(lambda update: self._queue.add(key_of(update.obj)))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._quotas.run())
                await self._quotas.synced()
                await work(self._queue, partial(self._reconcile, group), log)
        finally:
            self._queue.close()

    def hasten(self) -> None:
        """Look now at what waits for its time."""
        self._queue.hasten()

    async def _reconcile(self, group: asyncio.TaskGroup, key: Key) -> None:
        obj = self._quotas.get(key.name, key.namespace)
        if obj is None:
            self._close(key)
            return
        account = await self._account(group, read_quota(obj))
        if account.unserved:
            self._queue.add_after(key, _UNSERVED_SECONDS)
        now = self._clock.now()
        used = account.used(now)
        if used is None:
            # It will be heard from when all has been counted.
            return
        await self._tell(obj, used)
        moment = account.settles_next()
        if moment is not None:
            self._queue.add_after(key, (moment - now).total_seconds() + _SWARM_SECONDS)

    async def _account(self, group: asyncio.TaskGroup, quota: Quota) -> _Account:
        """The one in which the quota, as it is, is counted."""
        if quota.key in self._accounts:
            known, _ = self._accounts[quota.key]
            if known.quota == quota and not (known.unserved & (await self._kinds(known.unserved)).keys()):
                return known
        kinds = await self._kinds(frozenset(quota.names))
        self._close(quota.key)
        changed = partial(self._observe_use, quota.key)
        account = _Account(self._client, quota, kinds, changed, clock=self._clock, rng=self._rng)
        self._accounts[quota.key] = account, group.create_task(account.run())
        return account

    def _observe_use(self, key: Key) -> None:
        earliest = self._told.get(key, 0.0) + _SWARM_SECONDS
        self._queue.add_after(key, earliest - self._clock.monotonic())

    def _close(self, key: Key) -> None:
        self._told.pop(key, None)
        if key in self._accounts:
            self._accounts.pop(key)[1].cancel()

    async def _kinds(self, resources: frozenset[str]) -> dict[str, Kind]:
        """Those of the resources that are served."""
        kinds = {resource: _WELL_KNOWN[resource] for resource in resources if resource in _WELL_KNOWN}
        if len(kinds) < len(resources):
            served = await discover(self._client)
            kinds |= {kind.resource: kind for kind in served if kind.namespaced and kind.resource in resources}
        return kinds

    async def _tell(self, quota: Obj, used: Amounts) -> None:
        status = {"hard": (quota.get("spec") or {}).get("hard") or {}, "used": as_text(used)}
        if quota.get("status") != status:
            self._told[key_of(quota)] = self._clock.monotonic()
            await self._client.update_status(RESOURCE_QUOTA, {**quota, "status": status})


class _Account:
    """One quota: the objects that count are followed while it runs, and remembered by what they use alone."""

    def __init__(
        self,
        client: Client,
        quota: Quota,
        kinds: Mapping[str, Kind],
        changed: Callable[[], None],
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.quota = quota
        self.unserved = frozenset(quota.names) - kinds.keys()
        self._clock = clock
        self._changed = changed
        self._tallies = {resource: Tally(quota, resource) for resource in kinds}
        # Of what is only counted, the content is nobody's business here: Secrets are among it.
        unread = Client(MetadataTransport(client.transport), user_agent="hekla-quotas")
        self._informers: list[Informer] = []
        for resource, kind in kinds.items():
            reader = client if resource in (PODS, SERVICES, CLAIMS) else unread
            informer = Informer(reader, kind, quota.key.namespace, rng=rng, only_told=True)
            informer.subscribe(partial(self._observe, self._tallies[resource]))
            self._informers.append(informer)
        self._counted = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())
            for informer in self._informers:
                await informer.synced()
            self._counted = True
            self._changed()

    def used(self, now: datetime) -> Amounts | None:
        """None as long as not everything has been seen."""
        if not self._counted:
            return None
        used: Amounts = {}
        for tally in self._tallies.values():
            tally.settle(now)
            used |= tally.used
        return used

    def settles_next(self) -> datetime | None:
        moments = [tally.settles_next() for tally in self._tallies.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _observe(self, tally: Tally, update: Update) -> None:
        if update.new is None:
            tally.drop(name_of(update.obj))
        else:
            tally.put(name_of(update.new), update.new, self._clock.now())
        if self._counted:
            self._changed()
