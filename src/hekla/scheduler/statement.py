"""A set of undoable steps on a session: all of it is kept, or none of it happened."""

from __future__ import annotations

from dataclasses import dataclass

from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import GroupState, Session


@dataclass(slots=True, eq=False)
class Step:
    state: GroupState
    positions: Ints
    nodes: Ints
    shape: int
    status: PodStatus


class Statement:
    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps: list[Step] = []

    def place(self, state: GroupState, positions: Ints, nodes: Ints, shape: int, status: PodStatus) -> None:
        self._session.place(state, positions, nodes, shape, status)
        self.steps.append(Step(state, positions, nodes, shape, status))

    def discard(self) -> None:
        """Undo in reverse order. What each pod had been given stays known, for its message."""
        for step in reversed(self.steps):
            self._session.take_back(step.state, step.positions, step.nodes, step.shape, step.status)
            step.state.tried.update(
                (position, (step.status, node)) for position, node in zip(step.positions.tolist(), step.nodes.tolist())
            )
        self.steps.clear()

    def commit(self) -> None:
        """Hand the allocated pods over for binding. Promises (pipelined pods) last for the rest of the cycle only."""
        for step in self.steps:
            step.state.tried.clear()
            if step.status is PodStatus.ALLOCATED:
                step.state.mark(step.positions, PodStatus.ALLOCATED, PodStatus.BINDING, step.nodes)
        self.steps.clear()
