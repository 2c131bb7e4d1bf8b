"""Pods that a plan makes leave: told why, then deleted. One whose deletion failed is left alone for a while."""

from __future__ import annotations

import asyncio

from hekla.api.kinds import POD
from hekla.api.meta import is_deleting, revision_of, timestamp
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client, PatchStyle
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.errors import ApiError, Conflict, Disconnected
from hekla.log import get_logger
from hekla.scheduler.plan import Eviction
from hekla.scheduler.references import group_reference, pod_reference
from hekla.scheduler.resting import Resting
from hekla.scheduler.rows import Pod

log = get_logger("scheduler")

_EVICT = "Evict"
_DISRUPTION = "preempting to accommodate a higher priority pod"


class Evictions:
    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        resting: Resting,
        *,
        clock: Clock,
        in_flight: int,
        scheduler_name: str,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._resting = resting
        self._clock = clock
        self._in_flight = in_flight
        self._scheduler_name = scheduler_name
        self._due: WorkQueue[str] = WorkQueue()
        self._leaving: dict[str, Eviction] = {}

    async def run(self) -> None:
        """Evict until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._in_flight):
                    tasks.create_task(self._evict_for_ever())
        finally:
            self._due.close()

    def take(self, eviction: Eviction) -> None:
        """Carry it out; the cache counts the pod as leaving already."""
        self._resting.leave(eviction.pod.uid)
        self._leaving[eviction.pod.uid] = eviction
        self._due.add(eviction.pod.uid)

    async def _evict_for_ever(self) -> None:
        while True:
            uid = await self._due.get()
            try:
                await self._evict(self._leaving.pop(uid))
            finally:
                self._due.done(uid)

    async def _evict(self, eviction: Eviction) -> None:
        """Say why on the pod, then delete it: this pod and no other that took its name meanwhile."""
        pod, reason = eviction.pod, eviction.reason
        text = f"Pod is evicted, because of {reason}"
        try:
            await self._tell(pod, text)
            await self._client.delete(POD, pod.name, pod.namespace, uid=pod.uid)
        except (ApiError, Disconnected) as error:
            # Gone already, or refused, or the answer was lost: the watch will tell, or a later cycle decides again.
            log.info("eviction not confirmed", pod=pod.name, namespace=pod.namespace, error=error)
            self._resting.begin([pod.uid])
        else:
            self._resting.succeeded(pod.uid)
            contender = eviction.contender.row if eviction.contender is not None else None
            cause = group_reference(contender) if contender is not None else None
            whom = contender.key if contender is not None else ""
            log.info("evicted", pod=pod.name, namespace=pod.namespace, node=pod.node, action=reason, contender=whom)
            self._recorder.event(pod_reference(pod), WARNING, _EVICT, text, related=cause)
            self._recorder.event(group_reference(eviction.group.row), NORMAL, _EVICT, reason, related=cause)

    async def _tell(self, pod: Pod, text: str) -> None:
        """What was decided on may be out of date: a pod that is going already is not told to once more."""
        try:
            await self._write_eviction(pod, pod.revision, text)
        except Conflict:
            live = await self._client.get(POD, pod.name, pod.namespace)
            if is_deleting(live):
                raise
            await self._write_eviction(pod, revision_of(live), text)

    async def _write_eviction(self, pod: Pod, revision: int, text: str) -> None:
        now = timestamp(self._clock.now())
        conditions = [
            {"type": "Ready", "status": "False", "reason": _EVICT, "message": text, "lastTransitionTime": now},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{self._scheduler_name}: {_DISRUPTION}",
                "lastTransitionTime": now,
            },
        ]
        seen = {"uid": pod.uid, "resourceVersion": str(revision)}
        patch = {"metadata": seen, "status": {"conditions": conditions}}
        await self._client.patch(POD, pod.name, patch, pod.namespace, style=PatchStyle.STRATEGIC, subresource="status")
