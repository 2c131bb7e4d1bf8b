"""Nobody waits longer than agreed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from hekla.api.duration import parse_duration
from hekla.scheduler.extension import Argument, GroupEnqueueable, GroupOrder, GroupPipelined, SchedulerPlugin, Vote
from hekla.scheduler.fit import Unfit
from hekla.scheduler.session import GroupState, Session

_WAITING_TIME = "sla-waiting-time"


class Sla(SchedulerPlugin, GroupOrder, GroupEnqueueable, GroupPipelined):
    """Groups in the order in which their waiting time ends; once it is over they enter whatever later tiers say."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {_WAITING_TIME: Argument(str, "0", parse_duration)}

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        # Zero, as anything below, means that no time is agreed.
        seconds = parse_duration(arguments[_WAITING_TIME])
        self._common = seconds if seconds > 0 else None

    def group_key(self, state: GroupState) -> float:
        return self._end(state)

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        return self._vote(state), None

    def group_enqueued(self, state: GroupState) -> None:
        """Nothing is kept here."""

    def group_pipelined(self, state: GroupState) -> Vote:
        return self._vote(state)

    def _vote(self, state: GroupState) -> Vote:
        end = self._end(state)
        if self.session.snapshot.now >= end:
            return Vote.PERMIT
        if end < math.inf:
            self.session.look_again_at(end)
        return Vote.ABSTAIN

    def _end(self, state: GroupState) -> float:
        own = state.group.row.waiting_time
        waiting = self._common if own is None else own
        return math.inf if waiting is None else state.group.row.created + waiting
