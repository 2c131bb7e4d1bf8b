"""Dominant resource fairness between groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hekla.scheduler.arrays.fairness import share
from hekla.scheduler.extension import GroupOrder, SchedulerPlugin
from hekla.scheduler.session import GroupState, Session


class Drf(SchedulerPlugin, GroupOrder):
    """The group with the smaller share of the resource it uses most of comes first."""

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._total: list[float] = session.total.tolist()
        self._held: dict[int, list[float]] = {}
        session.listeners.append(self._moved)

    def group_key(self, state: GroupState) -> float:
        held = self._held.get(id(state)) or state.group.allocated.tolist()
        return share(held, self._total)

    def _moved(self, state: GroupState, shape: int, count: int) -> None:
        held = self._held.get(id(state))
        if held is None:
            held = self._held[id(state)] = state.group.allocated.tolist()
        for column, amount in self.session.asked(shape):
            held[column] += amount * count
