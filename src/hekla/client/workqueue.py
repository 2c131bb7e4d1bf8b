"""Keys waiting to be looked at.

A key is in the queue at most once, and never handed to two workers at the same time: added while it is being worked
on, it comes back when that work is `done`. Failures come back later and later, for ever: a retry limit would drop a
user's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FIRST_BACK_OFF = 0.005
_LONGEST_BACK_OFF = 30.0


class WorkQueue(Generic[K]):
    def __init__(self) -> None:
        # Each key wakes one worker: of a hundred that wait, the others need not look.
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._busy: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Have the key looked at as soon as may be."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._busy:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have the key looked at in `seconds`, or earlier if something else asks for it earlier."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._waiting:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    def retry(self, key: K) -> float:
        """The work on the key failed: back it comes, later each time. Returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(_FIRST_BACK_OFF * 2 ** min(failures, 20), _LONGEST_BACK_OFF)
        self.add_after(key, delay)
        return float(delay)

    def forget(self, key: K) -> None:
        """The work succeeded: the next failure starts from the shortest delay again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key. The caller must call `done` for it, whatever happens."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: K) -> None:
        self._busy.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def __len__(self) -> int:
        return self._ready.qsize()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
