"""Scheduling gates removed from pods that their queues have let in."""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import POD
from hekla.api.meta import uid_of
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.scheduler.rows import Pod

log = get_logger("scheduler")

_Target = tuple[str, str, str]  # namespace, name, uid


class Admissions:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._due: WorkQueue[_Target] = WorkQueue()

    def take(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._due.add((pod.namespace, pod.name, pod.uid))

    async def run(self) -> None:
        """Remove gates until cancelled."""
        try:
            while True:
                target = await self._due.get()
                try:
                    await self._open(target)
                    self._due.forget(target)
                except (ApiError, Disconnected) as error:
                    log.info("gate not removed yet", pod=target[1], error=error, retry=self._due.retry(target))
                finally:
                    self._due.done(target)
        finally:
            self._due.close()

    async def _open(self, target: _Target) -> None:
        namespace, name, uid = target
        try:
            # Gates can only be taken away once a pod is there: this was its only one.
            patch = {"metadata": {"uid": uid}, "spec": {"schedulingGates": None}}
            await self._client.patch(POD, name, patch, namespace)
        except (NotFound, Conflict) as error:
            live = await self._client.find(POD, name, namespace)
            if live is not None and uid_of(live) == uid:
                # It changed while it was patched. Its place in the queue is kept until the gate is gone.
                raise
            log.debug("gate of a pod that is gone", pod=name, namespace=namespace, error=error)
