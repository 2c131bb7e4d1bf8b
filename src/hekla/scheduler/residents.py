"""Pods that might be made to leave, by node: what preempting and reclaiming choose their victims from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.resources import Floats
from hekla.scheduler.rows import Pod, PodStatus
from hekla.scheduler.session import GroupState, PodClass, Session
from hekla.scheduler.snapshot import among


@dataclass(slots=True, eq=False)
class Resident:
    """A pod on a node. Not frozen: there are as many as pods, and freezing doubles what one costs."""

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
    """The pods of some groups that hold nodes with one of `statuses` and may be made to leave.

    As long as one is in use, nobody is evicted who is not among them. Pods that another scheduler has placed are not,
    though they may be members of a gang.
    """

    def __init__(self, session: Session, states: Iterable[GroupState], statuses: Sequence[PodStatus]) -> None:
        self._statuses = tuple(statuses)
        self._is_resident = among(self._statuses)
        self._codes = frozenset(map(int, statuses))  # plain numbers compare quickly
        self._by_line: dict[int, list[Resident]] = {}
        # What each node has to give once all of them, and those leaving already, have left.
        self._leavable: Floats = session.releasing.copy(order="F")
        self._leavable[:, session.snapshot.columns.pods] += session.held_slots
        lines = session.lines
        for state in states:
            self._add(session, lines, state)

    def on(self, line: int) -> list[Resident]:
        """Those still there, in the order of groups and pods."""
        found = self._by_line.get(line, ())
        return [resident for resident in found if int(resident.state.status[resident.position]) in self._codes]

    def most_free(self, session: Session) -> Floats:
        """What would be free on each node if all of them left, promises kept: no choice of them frees more."""
        free: Floats = session.idle + self._leavable - session.pipelined
        return free

    def _add(self, session: Session, lines: dict[str, int], state: GroupState) -> None:
        if not any(state.counts[status] for status in self._statuses):
            return
        pods, shapes = state.group.pods, state.group.shape.tolist()
        found: list[Resident] = []
        for position in np.flatnonzero(self._is_resident[state.status]).tolist():
            line = lines.get(pods[position].node)
            if line is not None and pods[position].preemptable and pods[position].ours:
                found.append(Resident(state, position, line, shapes[position]))
                self._by_line.setdefault(line, []).append(found[-1])
        if found:
            requests = session.snapshot.requests[[resident.shape for resident in found]]
            np.add.at(self._leavable, [resident.line for resident in found], requests)
