"""Pods whose binding or eviction failed, left alone for a while, longer each time.

Until then they keep their room, as if on their way. What failed together comes back together: a pod of a gang that came
back earlier would be bound alone, because the others still counted as on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hekla.scheduler.cache import Cache

_LONGEST_SECONDS = 30.0
_REMEMBERED = 1000


@dataclass(slots=True, eq=False)
class _Rest:
    uids: set[str]
    timer: asyncio.TimerHandle


class Resting:
    def __init__(self, cache: Cache, *, period: float, wake: Callable[[], None]) -> None:
        self._cache = cache
        self._period = period
        self._wake = wake
        self._failures: dict[str, int] = {}
        self._most = _REMEMBERED  # failures, before those of pods that are gone are dropped
        self._rests: dict[str, _Rest] = {}

    def begin(self, uids: Iterable[str]) -> None:
        """These have failed, together."""
        together = set(uids)
        if not together:
            return
        self._forget_gone()
        failures = 1 + max(self._failures.get(uid, 0) for uid in together)
        delay = min(self._period * 2 ** min(failures - 1, 10), _LONGEST_SECONDS)
        rest = _Rest(together, asyncio.get_running_loop().call_later(delay, self._end_of, together))
        for uid in together:
            self._failures[uid] = failures
            self.leave(uid)
            self._rests[uid] = rest

    def end(self, uid: str) -> None:
        """Have it looked at again now, and what rests with it."""
        rest = self._rests.get(uid)
        if rest is not None:
            rest.timer.cancel()
            self._end_of(rest.uids)

    def leave(self, uid: str) -> None:
        """Its rest is over: one whose answer was lost was bound after all, say, and now has to leave its node."""
        earlier = self._rests.pop(uid, None)
        if earlier is not None:
            earlier.uids.discard(uid)

    def succeeded(self, uid: str) -> None:
        """The next failure starts from the shortest rest again."""
        self._failures.pop(uid, None)

    def close(self) -> None:
        for rest in self._rests.values():
            rest.timer.cancel()

    def _forget_gone(self) -> None:
        if len(self._failures) > self._most:
            self._failures = {uid: count for uid, count in self._failures.items() if self._cache.pod(uid) is not None}
            self._most = max(_REMEMBERED, 2 * len(self._failures))

    def _end_of(self, together: set[str]) -> None:
        for uid in sorted(together):
            del self._rests[uid]
            self._cache.forget(uid)
            if self._cache.pod(uid) is None:
                self._failures.pop(uid, None)
        self._wake()
