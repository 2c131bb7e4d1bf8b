"""Pods that might be made to leave, by node: what preempting and reclaiming choose their victims from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.resources import Floats
from hekla.scheduler.rows import Pod, PodStatus
from hekla.scheduler.session import GroupState, PodClass, Session


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """A pod on a node."""

    state: GroupState
    position: int
    line: int
    shape: int

    @property
    def pod(self) -> Pod:
        return self.state.group.pods[self.position]

    @property
    def status(self) -> PodStatus:
        return PodStatus(int(self.state.status[self.position]))


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A pending pod for which others may have to leave."""

    state: GroupState
    position: int
    of: PodClass

    @property
    def shape(self) -> int:
        return self.of.shape

    @property
    def pod(self) -> Pod:
        return self.state.group.pods[self.position]


class Residents:
    """The pods of some groups that hold nodes with one of `statuses` and may be made to leave."""

    def __init__(self, session: Session, states: Iterable[GroupState], statuses: Sequence[PodStatus]) -> None:
        self._statuses = tuple(statuses)
        self._by_line: dict[int, list[Resident]] = {}
        # What each node would gain if all of them left: never less than what some of them could free.
        self.most: Floats = np.zeros_like(session.idle)
        lines = session.lines
        for state in states:
            self._add(session, lines, state)

    def on(self, line: int) -> list[Resident]:
        """Those still there, in the order of groups and pods."""
        return [resident for resident in self._by_line.get(line, ()) if resident.status in self._statuses]

    def _add(self, session: Session, lines: dict[str, int], state: GroupState) -> None:
        if not any(state.counts[status] for status in self._statuses):
            return
        group = state.group
        for position in np.flatnonzero(np.isin(state.status, self._statuses)).tolist():
            pod, shape = group.pods[position], int(group.shape[position])
            line = lines.get(pod.node)
            if pod.preemptable and line is not None:
                self._by_line.setdefault(line, []).append(Resident(state, position, line, shape))
                self.most[line] += session.request(shape)
