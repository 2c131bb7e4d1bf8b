"""A set of undoable steps on a session: all of it is kept, or none of it happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.residents import Resident
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import Departure, GroupState, Session, Tried


@dataclass(slots=True, eq=False)
class Placed:
    state: GroupState
    positions: Ints
    nodes: Ints
    shape: int
    status: PodStatus
    cleared: bool  # others had to leave for it

    def undo(self, session: Session) -> None:
        """What each pod had been given stays known, for its message."""
        session.take_back(self.state, self.positions, self.nodes, self.shape, self.status)
        self.state.tried.update(
            (position, Tried(self.status, node, self.cleared))
            for position, node in zip(self.positions.tolist(), self.nodes.tolist())
        )

    def keep(self, session: Session) -> None:
        for position in self.positions.tolist() if self.state.tried else ():
            self.state.tried.pop(position, None)
        if self.cleared:
            self.state.cleared.update(self.positions.tolist())
        if self.status is PodStatus.ALLOCATED:
            self.state.mark(self.positions, PodStatus.ALLOCATED, PodStatus.BINDING, self.nodes)


@dataclass(slots=True, eq=False)
class Evicted:
    resident: Resident
    before: PodStatus
    reason: str
    contender: GroupState | None

    def undo(self, session: Session) -> None:
        resident = self.resident
        session.keep(resident.state, resident.position, resident.line, resident.shape, self.before)

    def keep(self, session: Session) -> None:
        session.evictions.append(Departure(self.resident.state, self.resident.position, self.reason, self.contender))


class Statement:
    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps: list[Placed | Evicted] = []

    def place(
        self,
        state: GroupState,
        positions: Ints,
        nodes: Ints,
        shape: int,
        status: PodStatus,
        *,
        cleared: bool = False,
    ) -> None:
        self._session.place(state, positions, nodes, shape, status)
        self.steps.append(Placed(state, positions, nodes, shape, status, cleared))

    def promise(self, state: GroupState, position: int, line: int, shape: int, *, cleared: bool) -> None:
        """Give one pod room that is not there yet."""
        self.place(state, np.array([position]), np.array([line]), shape, PodStatus.PIPELINED, cleared=cleared)

    def evict(self, resident: Resident, reason: str, contender: GroupState | None = None) -> None:
        """Make a pod leave, for the sake of the contender."""
        before = resident.status
        self._session.evict(resident.state, resident.position, resident.line, resident.shape)
        self.steps.append(Evicted(resident, before, reason, contender))

    def merge(self, other: Statement) -> None:
        """Take over the steps of a statement on the same session."""
        self.steps += other.steps
        other.steps = []

    def discard(self) -> None:
        """Undo in reverse order."""
        for step in reversed(self.steps):
            step.undo(self._session)
        self.steps.clear()

    def commit(self) -> None:
        """Hand over: allocated pods for binding, evicted ones for eviction. Promises last for this cycle only."""
        for reason in {step.reason for step in self.steps if isinstance(step, Evicted)}:
            self._session.tallies.transactions[reason] += 1
        for step in self.steps:
            step.keep(self._session)
        self.steps.clear()
