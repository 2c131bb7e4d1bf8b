"""How much more than the cluster has may wait inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.resources import Floats, exceeded
from hekla.scheduler.extension import Argument, GroupEnqueueable, SchedulerPlugin, Vote
from hekla.scheduler.fit import Unfit
from hekla.scheduler.inqueue import lacking, nowhere
from hekla.scheduler.session import GroupState, Session

_FACTOR = "overcommit-factor"


class Overcommit(SchedulerPlugin, GroupEnqueueable):
    """Groups enter while their minimums together stay within what is free of `factor` times the cluster."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {_FACTOR: Argument(float, 1.2)}

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        # parity: a factor below one is not an error but the default.
        self._factor: float = arguments[_FACTOR] if arguments[_FACTOR] >= 1 else 1.2
        self._free: Floats = session.total * self._factor - session.used.sum(axis=0)
        inside = [state.group.reserved for state in session.active]
        inside += [held.reserved for name, held in session.snapshot.held.items() if name in session.queues]
        self._entered: Floats = np.sum(inside, axis=0) if inside else np.zeros(len(session.snapshot.columns))

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        minimum = state.group.minimum
        columns = self.session.snapshot.columns
        over = exceeded(self._entered + minimum, self._free, minimum, columns.counted)
        if not over.any():
            return Vote.PERMIT, None
        lines = np.flatnonzero(over)
        named = ", ".join(f"overused {columns.names[column]}" for column in lines)
        left = np.maximum(self._free - self._entered, 0.0)
        words = nowhere(columns.names, lines, minimum, self.session.total)
        if not words:
            words = lacking(columns.names, lines, minimum, left, self.session.total, "in the whole cluster")
            words += f", counting the cluster {self._factor:g} times" if words.endswith(" left") else ""
        return Vote.REJECT, Unfit(Reason.NOT_ENOUGH_RESOURCES, f"resource in cluster is overused: {named}", words)

    def group_enqueued(self, state: GroupState) -> None:
        self._entered = self._entered + state.group.claim
