"""The status of PodDisruptionBudgets: how many of their pods are well, and how many may be made to leave.

Pods are followed while there is any budget. What an eviction has noted in a status is kept until the pods show it: a
status written from older pods, or over a note not seen yet, would give an allowance away twice.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any, TypedDict

from hekla.api.budget import Budget, counted, read_budget, uncounted
from hekla.api.kinds import POD, POD_DISRUPTION_BUDGET, Obj
from hekla.api.meta import Key, key_of, namespace_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.local.builtins.scaling import Unscalable, expected_pods
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("budgets")

_NAMESPACE = "namespace"


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    labels: dict[str, str] | None
    ownerReferences: Any
    creationTimestamp: str
    deletionTimestamp: str


class _Status(TypedDict, total=False):
    conditions: Any


class _PodView(TypedDict, total=False):
    """What of a pod says whose it is and how it is."""

    metadata: _Metadata
    status: _Status


class BudgetController:
    def __init__(self, client: Client, *, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._budgets = Informer(client, POD_DISRUPTION_BUDGET, indexers={_NAMESPACE: _namespaces}, rng=rng)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._pods: tuple[Informer, asyncio.Task[None]] | None = None

    async def run(self) -> None:
        self._budgets.subscribe(lambda update: self._queue.add(key_of(update.obj)))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._budgets.run())
                await self._budgets.synced()
                await work(self._queue, partial(self._reconcile, group), log)
        finally:
            self._queue.close()

    def hasten(self) -> None:
        """Look now at what waits for its time."""
        self._queue.hasten()

    async def _reconcile(self, group: asyncio.TaskGroup, key: Key) -> None:
        if not self._budgets.all():
            self._let_pods_be()
            return
        pods = self._follow_pods(group)
        await pods.synced()
        # Looked up after the pods: whatever has been noted in it by now is newer than they are.
        obj = self._budgets.get(key.name, key.namespace)
        if obj is None:
            return
        budget = read_budget(obj)
        covered = [pod for pod in pods.by_index(_NAMESPACE, key.namespace) if budget.covers(pod)]
        status = await self._status(budget, covered)
        if status != obj.get("status"):
            await self._client.update_status(POD_DISRUPTION_BUDGET, {**obj, "status": status})

    async def _status(self, budget: Budget, pods: list[Obj]) -> Obj:
        try:
            expected = await expected_pods(self._client, pods) if budget.needs_scale else len(pods)
        except Unscalable as error:
            return uncounted(budget, str(error), self._clock.now())
        now = self._clock.now()
        status, moment = counted(budget, pods, expected, now)
        if moment is not None:
            self._queue.add_after(budget.key, (moment - now).total_seconds() + 1.0)
        return status

    def _follow_pods(self, group: asyncio.TaskGroup) -> Informer:
        if self._pods is None:
            pods = Informer(self._client, POD, view=_PodView, indexers={_NAMESPACE: _namespaces}, rng=self._rng)
            pods.subscribe(self._observe_pod)
            self._pods = pods, group.create_task(pods.run())
        return self._pods[0]

    def _let_pods_be(self) -> None:
        if self._pods is not None:
            self._pods[1].cancel()
            self._pods = None

    def _observe_pod(self, update: Update) -> None:
        seen = [pod for pod in (update.old, update.new) if pod is not None]
        for obj in self._budgets.by_index(_NAMESPACE, namespace_of(update.obj)):
            budget = read_budget(obj)
            if any(budget.covers(pod) for pod in seen):
                self._queue.add(budget.key)


def _namespaces(obj: Obj) -> list[str]:
    return [namespace_of(obj)]
