"""Dominant resource fairness between groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hekla.scheduler.arrays.fairness import share
from hekla.scheduler.extension import GroupOrder, Measured, Preemptable, SchedulerPlugin
from hekla.scheduler.figure import Figure
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.session import GroupState, Session

_EQUAL = 1e-6


class Drf(SchedulerPlugin, GroupOrder, Preemptable, Measured):
    """The group with the smaller share of the resource it uses most of comes first."""

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._total: list[float] = session.total.tolist()
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

    def figures(self) -> Iterator[Figure]:
        for state in self.session.groups:
            key = state.group.row.key
            yield Figure("job_share", (key.namespace, key.name), self.group_key(state))

    def _held_by(self, state: GroupState) -> list[float]:
        return self._held.get(id(state)) or state.group.allocated.tolist()

    def _moved(self, state: GroupState, shape: int, count: int) -> None:
        held = self._held.get(id(state))
        if held is None:
            held = self._held[id(state)] = state.group.allocated.tolist()
        for column, amount in self.session.asked(shape):
            held[column] += amount * count
