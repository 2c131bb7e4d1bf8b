"""How soon something is written again that was written before."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from hekla.clock import Clock

Key = tuple[str, str]  # what kind of thing, and its uid

_REMEMBERED = 20_000
_LONGEST_REST = 300  # periods that words stand which change all the time


@dataclass(frozen=True, slots=True)
class _Said:
    at: float
    times: int  # in other words, one soon after the other


class Pace:
    """Counts are written once a period.

    Words rest longer: each pod that comes or goes changes the figures in what all who wait have to say. The more often
    something has been said in other words, the longer it stands; what has stood for twice as long begins anew.
    """

    def __init__(self, clock: Clock, period: float) -> None:
        self._clock = clock
        self._period = period
        self._written: OrderedDict[Key, _Said] = OrderedDict()

    def note(self, key: Key, *, reworded: bool = False) -> None:
        """It has just been written."""
        last, now = self._written.get(key), self._clock.monotonic()
        soon = last is not None and now < last.at + 2 * self._rest(last)
        self._written[key] = _Said(now, last.times + reworded if last is not None and soon else 1)
        self._written.move_to_end(key)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)

    def until_counts(self, key: Key) -> float:
        """Seconds until a period has passed since the last write."""
        last = self._written.get(key)
        return 0.0 if last is None else max(0.0, last.at + self._period - self._clock.monotonic())

    def until_words(self, key: Key) -> float:
        """Seconds until the same is said in other words."""
        last = self._written.get(key)
        return 0.0 if last is None else max(0.0, last.at + self._rest(last) - self._clock.monotonic())

    def _rest(self, last: _Said) -> float:
        return self._period * min(1 << min(last.times - 1, 10), _LONGEST_REST)
