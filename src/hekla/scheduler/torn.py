"""Gangs of which the server took only a part: completed where that can be, undone where not, never left half.

Where bindings go one by one, some of a gang's may be refused while others were made. The refused pods are tried again
by later cycles. A gang that is still short of its minimum after a while is undone: the pods that were bound are
deleted, where somebody makes them again, so that they do not hold room for nothing. From then on its bindings are
rehearsed before they are made: while one of them is refused none is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hekla.api.kinds import POD
from hekla.api.meta import Key
from hekla.client.recorder import WARNING, Recorder
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import ApiError, Disconnected
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.references import group_reference
from hekla.scheduler.rows import Pod, PodGroup, PodStatus

log = get_logger("scheduler")

_HELD = (PodStatus.BOUND, PodStatus.RUNNING, PodStatus.SUCCEEDED)


class TornGangs:
    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: Recorder,
        *,
        patience: float,
        end_rest: Callable[[Pod], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._patience = patience
        self._end_rest = end_rest  # has a refused pod looked at again now
        self._refused: dict[Key, str] = {}  # groups with pods bound and pods refused: the last refusal
        self._undone: set[Key] = set()
        self._due: WorkQueue[Key] = WorkQueue()

    async def run(self) -> None:
        """Look after torn gangs until cancelled."""
        try:
            while True:
                key = await self._due.get()
                try:
                    await self._settle(key)
                    self._due.forget(key)
                except (ApiError, Disconnected) as error:
                    log.info("torn gang not undone yet", group=key.name, error=error, retry=self._due.retry(key))
                finally:
                    self._due.done(key)
        finally:
            self._due.close()

    def needs_rehearsal(self, pods: Sequence[Pod]) -> bool:
        """Whether these pods' group was undone before."""
        return any(pod.group in self._undone for pod in pods)

    def note(self, pods: Sequence[Pod], answers: Sequence[Exception | None]) -> None:
        """What became of the bindings of pods of one group."""
        group = pods[0].group
        errors = [f"{pod.name}: {answer}" for pod, answer in zip(pods, answers) if answer is not None]
        if group is None:
            return
        if not errors:
            self._undone.discard(group)
        elif len(errors) < len(pods) and not self._was_there_before(group, pods):
            self._refused[group] = errors[0]
            self._due.add_after(group, self._patience)

    def _was_there_before(self, group: Key, pods: Sequence[Pod]) -> bool:
        """Whether other pods of the group hold nodes: it is being repaired then, and what runs is left alone."""
        own = {pod.uid for pod in pods}
        return any(pod.status in _HELD and pod.uid not in own for pod in self._cache.members(group))

    async def _settle(self, key: Key) -> None:
        """The gang has had its time: whole by now, or undone."""
        row, members = self._cache.group(key), self._cache.members(key)
        held = [pod for pod in members if pod.status in _HELD]
        if row is None or not held or len(held) >= row.min_member:
            self._refused.pop(key, None)
            return
        removed = [pod for pod in held if pod.status is not PodStatus.SUCCEEDED and await self._remove(pod)]
        if removed:
            self._undone = {key, *(other for other in self._undone if self._cache.group(other) is not None)}
            for pod in members:
                # The next attempt is about all of them.
                self._end_rest(pod)
            self._tell(row, len(removed), len(members))
        self._refused.pop(key, None)

    async def _remove(self, pod: Pod) -> bool:
        """Delete a pod that its controller will make again; one that nobody would make again stays."""
        live = await self._client.find(POD, pod.name, pod.namespace)
        if live is None or live["metadata"].get("uid") != pod.uid:
            return False
        owners = live["metadata"].get("ownerReferences") or ()
        if not any(owner.get("controller") for owner in owners):
            log.warning("pod of a torn gang stays, nobody would make it again", pod=pod.name, namespace=pod.namespace)
            return False
        await self._client.delete(POD, pod.name, pod.namespace, uid=pod.uid)
        return True

    def _tell(self, row: PodGroup, removed: int, pods: int) -> None:
        refused = self._refused.get(row.key, "")
        text = f"{removed} of {pods} pods were bound and the gang could not be completed, so they are removed"
        log.warning("gang undone", group=row.key.name, namespace=row.key.namespace, removed=removed, refused=refused)
        self._recorder.event(group_reference(row), WARNING, "GangUndone", f"{text}; refused was {refused}")
