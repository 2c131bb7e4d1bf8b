"""What the objects of one resource use of one quota, kept up object by object."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from hekla.api.kinds import Obj
from hekla.api.pod_resources import Amount, Amounts
from hekla.api.quota import Quota
from hekla.api.quota_usage import PODS, given_up_at

_NOTHING = Amount(Decimal(0))
_A_MOMENT = timedelta(microseconds=1)


class Tally:
    """`used` has every name that is counted, whether anything is used of it or not."""

    def __init__(self, quota: Quota, resource: str) -> None:
        self.quota = quota
        self.resource = resource
        self.used: Amounts = dict.fromkeys(sorted(quota.names[resource]), _NOTHING)
        self._held: dict[str, Amounts] = {}
        # Pods that will stop counting without anybody telling: when, and what they use then.
        self._leaving: dict[str, tuple[datetime, Amounts]] = {}

    @property
    def names(self) -> frozenset[str]:
        """Of the objects that count."""
        return frozenset(self._held)

    def put(self, name: str, obj: Obj, now: datetime) -> None:
        """Count an object as it is now, in place of what it was."""
        self.drop(name)
        self._take(name, self.quota.usage(self.resource, obj, now))
        ends = given_up_at(obj) if self.resource == PODS else None
        if ends is not None and now <= ends:
            self._leaving[name] = ends, self.quota.usage(self.resource, obj, ends + _A_MOMENT)

    def drop(self, name: str) -> None:
        self._leaving.pop(name, None)
        for of, amount in self._held.pop(name, {}).items():
            self.used[of] -= amount

    def settle(self, now: datetime) -> None:
        """Let go of what has stopped counting by now."""
        for name, (ends, usage) in list(self._leaving.items()):
            if now > ends:
                self.drop(name)
                self._take(name, usage)

    def settles_next(self) -> datetime | None:
        return min((ends for ends, _ in self._leaving.values()), default=None)

    def _take(self, name: str, usage: Amounts) -> None:
        if usage:
            self._held[name] = usage
        for of, amount in usage.items():
            self.used[of] += amount
