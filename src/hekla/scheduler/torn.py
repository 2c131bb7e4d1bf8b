"""Gangs of which the server took only a part: completed where that can be, undone where not, never left half.

Where bindings go one by one, some of a gang's may be refused while others were made. The refused pods are tried again
by later cycles. A gang that is still short of its minimum after a while is undone: the pods that were bound are
deleted, where somebody makes them again, so that they do not hold room for nothing. Of a gang that has its minimum the
subgroups that are not whole are undone. From then on its bindings are rehearsed before they are made: while one of them
is refused none is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hekla.api.kinds import POD
from hekla.api.meta import Key
from hekla.client.recorder import WARNING, Recorder
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import ApiError, Disconnected
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.minimum import by_subgroup, has_minimum
from hekla.scheduler.references import group_reference
from hekla.scheduler.rows import Pod, PodGroup, PodStatus
from hekla.scheduler.subgroups import Subgroup

log = get_logger("scheduler")

_HELD = (PodStatus.BOUND, PodStatus.RUNNING, PodStatus.SUCCEEDED)


@dataclass(slots=True)
class _Tear:
    refused: str = ""  # the last refusal
    whole: bool = False  # the group had nothing before
    subgroups: set[Subgroup] = field(default_factory=set)  # those that had nothing before


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
        self._tears: dict[Key, _Tear] = {}  # groups with pods bound and pods refused
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
        self._mend(group, {pod.uid for pod, answer in zip(pods, answers) if answer is None})
        if not errors:
            self._undone.discard(group)
            return
        tear = self._tear(group, pods, [pod for pod, answer in zip(pods, answers) if answer is not None])
        if tear.whole or tear.subgroups:
            known = self._tears.setdefault(group, _Tear())
            known.refused, known.whole = errors[0], known.whole or tear.whole
            known.subgroups |= tear.subgroups
            self._due.add_after(group, self._patience)

    def _mend(self, group: Key, taken: set[str]) -> None:
        """Forget tears that are closed now: what such a gang loses later is its controller's to repair."""
        tear, row = self._tears.get(group), self._cache.group(group)
        if tear is None or row is None:
            return
        held = [pod for pod in self._cache.members(group) if pod.status in _HELD or pod.uid in taken]
        tear.whole = tear.whole and not has_minimum(row, held)
        tear.subgroups -= {part for part, pods in by_subgroup(row, held).items() if len(pods) >= part.size}
        if not tear.whole and not tear.subgroups:
            del self._tears[group]

    def _tear(self, group: Key, pods: Sequence[Pod], refused: Sequence[Pod]) -> _Tear:
        """Where some of the pods were taken and others refused, and nobody was before.

        Where other pods hold nodes already something is being repaired, and what runs is left alone.
        """
        own, without = {pod.uid for pod in pods}, {pod.uid for pod in refused}
        others = [pod for pod in self._cache.members(group) if pod.status in _HELD and pod.uid not in own]
        row = self._cache.group(group)
        parts, begun = (by_subgroup(row, pods), by_subgroup(row, others)) if row is not None else ({}, {})
        torn = {part for part, found in parts.items() if part not in begun and _is_mixed(found, without)}
        return _Tear(whole=not others and _is_mixed(pods, without), subgroups=torn)

    async def _settle(self, key: Key) -> None:
        """The gang has had its time: whole by now, or undone."""
        row, members, tear = self._cache.group(key), self._cache.members(key), self._tears.get(key)
        if row is not None and tear is not None:
            held = [pod for pod in members if pod.status in _HELD]
            if tear.whole and held and not has_minimum(row, held):
                await self._undo(row, members, held, "the gang", tear.refused)
            else:
                short = {part: pods for part, pods in by_subgroup(row, held).items() if len(pods) < part.size}
                for part in sorted(short.keys() & tear.subgroups, key=lambda part: part.name):
                    await self._undo(row, members, short[part], f"subgroup {part.name}", tear.refused)
        self._tears.pop(key, None)

    async def _undo(self, row: PodGroup, members: Iterable[Pod], held: Sequence[Pod], what: str, refused: str) -> None:
        removed = [pod for pod in held if pod.status is not PodStatus.SUCCEEDED and await self._remove(pod)]
        if not removed:
            return
        self._undone = {row.key, *(other for other in self._undone if self._cache.group(other) is not None)}
        pods = list(members)
        for pod in pods:
            # The next attempt is about all of them.
            self._end_rest(pod)
        text = f"{len(removed)} of {len(pods)} pods were bound and {what} could not be completed, so they are removed"
        name, namespace = row.key.name, row.key.namespace
        log.warning("gang undone", group=name, namespace=namespace, what=what, removed=len(removed), refused=refused)
        self._recorder.event(group_reference(row), WARNING, "GangUndone", f"{text}; refused was {refused}")

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


def _is_mixed(pods: Sequence[Pod], refused: set[str]) -> bool:
    return 0 < sum(1 for pod in pods if pod.uid in refused) < len(pods)
