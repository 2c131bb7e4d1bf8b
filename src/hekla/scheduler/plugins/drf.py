"""Dominant resource fairness between groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hekla.scheduler.arrays.resources import Floats
from hekla.scheduler.extension import GroupOrder, SchedulerPlugin
from hekla.scheduler.session import GroupState, Session


class Drf(SchedulerPlugin, GroupOrder):
    """The group with the smaller share of the resource it uses most of comes first."""

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._total = [float(amount) for amount in session.total]
        self._held: dict[int, Floats] = {}
        session.listeners.append(self._moved)

    def group_key(self, state: GroupState) -> float:
        held = self._held.get(id(state))
        amounts = (state.group.allocated if held is None else held).tolist()
        return max(
            [0.0, *(amount / total if total else float(amount > 0) for amount, total in zip(amounts, self._total))]
        )

    def _moved(self, state: GroupState, request: Floats, count: int) -> None:
        held = self._held.get(id(state))
        self._held[id(state)] = (state.group.allocated if held is None else held) + request * count
