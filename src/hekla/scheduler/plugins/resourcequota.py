"""Groups enter only where the quotas of their namespace have room for their minimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hekla.api.quantity import format_binary, format_decimal
from hekla.api.reasons import Reason
from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.extension import GroupEnqueueable, SchedulerPlugin, Vote
from hekla.scheduler.fit import Unfit
from hekla.scheduler.rows import Quota
from hekla.scheduler.session import GroupState, Session

_Amounts = Mapping[str, Decimal]


class ResourceQuota(SchedulerPlugin, GroupEnqueueable):
    """What a group needs at least must fit beside what is used and what has entered and is not in use yet."""

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._entered: dict[str, dict[str, Decimal]] = {}
        # A quota knows pods as soon as they are made: of those that have entered only the ones without are missing.
        for state in session.groups if session.snapshot.quotas else ():
            if state.phase is PodGroupPhase.INQUEUE and not state.group.pods:
                self.group_enqueued(state)

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        namespace, wanted = state.group.row.key.namespace, state.group.row.min_quantities
        for quota in self.session.snapshot.quotas:
            over = self._exceeded(quota, wanted) if quota.key.namespace == namespace else []
            if over:
                return Vote.REJECT, _objection(quota, wanted, over)
        return Vote.PERMIT, None

    def group_enqueued(self, state: GroupState) -> None:
        entered = self._entered.setdefault(state.group.row.key.namespace, {})
        for name, amount in state.group.row.min_quantities.items():
            entered[name] = entered.get(name, Decimal(0)) + amount

    def _exceeded(self, quota: Quota, wanted: _Amounts) -> list[str]:
        """What of the quota would be used beyond its limit."""
        entered = self._entered.get(quota.key.namespace, {})
        return [
            name
            for name, amount in wanted.items()
            if name in quota.hard
            and quota.used.get(name, Decimal(0)) + entered.get(name, Decimal(0)) + amount > quota.hard[name]
        ]


def _objection(quota: Quota, wanted: _Amounts, over: Sequence[str]) -> Unfit:
    used = {name: quota.used.get(name, Decimal(0)) for name in over}
    asked, hard = ({name: amounts[name] for name in over} for amounts in (wanted, quota.hard))
    text = f"resource quota insufficient, requested: {_show(asked)}, used: {_show(used)}, limited: {_show(hard)}"
    return Unfit(Reason.QUOTA_EXCEEDED, text, f"{text} (quota {quota.key.name})")


def _show(amounts: _Amounts) -> str:
    return " ".join(
        f"{name}={format_binary(amount) if 'memory' in name or 'storage' in name else format_decimal(amount)}"
        for name, amount in sorted(amounts.items())
    )
