"""Dominant resource fairness between groups and, where asked for, between departments of queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from hekla.scheduler.arrays.fairness import share
from hekla.scheduler.extension import (
    HIERARCHY,
    GroupOrder,
    Measured,
    Preemptable,
    QueueOrder,
    Reclaimable,
    SchedulerPlugin,
)
from hekla.scheduler.fairtree import FairTree
from hekla.scheduler.figure import Figure
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Queue
from hekla.scheduler.session import GroupState, Session

_EQUAL = 1e-6


class Drf(SchedulerPlugin, GroupOrder, Preemptable, QueueOrder, Reclaimable, Measured):
    """The group with the smaller share of the resource it uses most of comes first.

    With `enableHierarchy` queues are ordered, and may take from each other, by the tree they are annotated with.
    """

    OPTIONS: ClassVar[tuple[str, ...]] = (HIERARCHY,)

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._total: list[float] = session.total.tolist()
        requests = session.snapshot.requests
        self._tree = FairTree(session.total, session.groups, requests) if arguments[HIERARCHY] else None
        self._held: dict[int, list[float]] = {}
        session.listeners.append(self._moved)

    def group_key(self, state: GroupState) -> float:
        return share(self._held_by(state), self._total)

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        """Those whose group has at least the contender's share, even with the contender in and them gone."""
        wanted = list(self._held_by(contender.state))
        for column, amount in self.session.asked(contender.shape):
            wanted[column] += amount
        mark = share(wanted, self._total)
        left: dict[int, list[float]] = {}
        allowed = []
        for resident in candidates:
            rest = left.setdefault(id(resident.state), list(self._held_by(resident.state)))
            # parity: also one that may stay is counted as gone for those after it.
            for column, amount in self.session.asked(resident.shape):
                rest[column] -= amount
            if mark <= share(rest, self._total) + _EQUAL:
                allowed.append(resident)
        return allowed

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        return self._tree.rank(queue) if self._tree is not None else ()

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        """Those whose queue would still come after the contender's, with the contender in and each alone gone."""
        if self._tree is None:
            return None
        request = self.session.request(contender.shape)
        self._tree.move(contender.state, request)
        allowed = [resident for resident in candidates if self._comes_after(self._tree, resident, contender)]
        self._tree.move(contender.state, -request)
        return allowed

    def _comes_after(self, tree: FairTree, resident: Resident, contender: Contender) -> bool:
        request = self.session.request(resident.shape)
        tree.move(resident.state, -request)
        after = tree.rank(contender.state.queue) < tree.rank(resident.state.queue)
        tree.move(resident.state, request)
        return after

    def figures(self) -> Iterator[Figure]:
        for state in self.session.groups:
            key = state.group.row.key
            yield Figure("job_share", (key.namespace, key.name), self.group_key(state))

    def _held_by(self, state: GroupState) -> list[float]:
        return self._held.get(id(state)) or state.group.allocated.tolist()

    def _moved(self, state: GroupState, shape: int, count: int) -> None:
        if self._tree is not None:
            self._tree.move(state, self.session.request(shape) * count)
        held = self._held.get(id(state))
        if held is None:
            held = self._held[id(state)] = state.group.allocated.tolist()
        for column, amount in self.session.asked(shape):
            held[column] += amount * count
