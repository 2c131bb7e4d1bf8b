"""Keys waiting to be looked at.

A key is in the queue at most once, and never handed to two workers at the same time: added while it is being worked
on, it comes back when that work is `done`. Failures come back later and later, for ever: a retry limit would drop a
user's work. What somebody waits for may go ahead of what only has to be told; of many turns, one is the others', and of
the others only so many need be worked on at a time.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FIRST_BACK_OFF = 0.005
_LONGEST_BACK_OFF = 30.0
_AHEAD_IN_A_ROW = 8


class WorkQueue(Generic[K]):
    def __init__(self, *, most_behind: int = sys.maxsize) -> None:
        """At most so many of those that did not go ahead are worked on at a time."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._line = _Line[K]()
        self._most_behind = most_behind
        self._busy_behind: set[K] = set()
        self._waiting: dict[K, bool] = {}  # whether it goes ahead
        self._busy: set[K] = set()
        self._timers: dict[K, _Timer] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K, *, ahead: bool = False) -> None:
        """Have the key looked at as soon as may be; `ahead`: before those that nobody waits for."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()
            ahead = ahead or timer.ahead
        known = self._waiting.get(key)
        if known is None:
            self._waiting[key] = ahead
            if key not in self._busy:
                self._stand_in_line(key)
        elif ahead and not known:
            self._waiting[key] = True
            self._line.advance(key)
            self._wake_worker()

    def add_after(self, key: K, seconds: float, *, ahead: bool = False) -> None:
        """Have the key looked at in `seconds`, or earlier if something else asks for it earlier."""
        if seconds <= 0:
            self.add(key, ahead=ahead)
            return
        if key in self._waiting:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            ahead = ahead or timer.ahead
            if timer.handle.when() <= due:
                timer.ahead = ahead
                return
            timer.handle.cancel()
        self._timers[key] = _Timer(loop.call_at(due, self._due, key), ahead)

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """The work on the key failed: back it comes, later each time. Returns the delay in seconds.

        Not before `at_least` seconds, as far as that is no longer than the longest delay. What went ahead comes back
        ahead: somebody still waits for it.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(max(_FIRST_BACK_OFF * 2 ** min(failures, 20), at_least), _LONGEST_BACK_OFF)
        self.add_after(key, delay, ahead=key in self._busy and key not in self._busy_behind)
        return float(delay)

    def forget(self, key: K) -> None:
        """The work succeeded: the next failure starts from the shortest delay again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key. The caller must call `done` for it, whatever happens."""
        while not self._has_next:
            await self._be_woken()
        key = self._line.next(others_too=self._has_room_behind)
        if not self._waiting.pop(key):
            self._busy_behind.add(key)
        self._busy.add(key)
        return key

    def done(self, key: K) -> None:
        self._busy.discard(key)
        if key in self._busy_behind:
            self._busy_behind.discard(key)
            self._wake_worker()
        if key in self._waiting:
            self._stand_in_line(key)

    def widen(self, most_behind: int) -> None:
        """So many of those that did not go ahead may be worked on at a time from now on."""
        more, self._most_behind = most_behind - self._most_behind, most_behind
        for _ in range(more):
            self._wake_worker()

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()

    def __len__(self) -> int:
        return len(self._line)

    def _stand_in_line(self, key: K) -> None:
        self._line.join(key, ahead=self._waiting[key])
        self._wake_worker()

    @property
    def _has_next(self) -> bool:
        ahead, behind = self._line.lengths()
        return bool(ahead or (behind and self._has_room_behind))

    @property
    def _has_room_behind(self) -> bool:
        return len(self._busy_behind) < self._most_behind

    async def _be_woken(self) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(woken)
        try:
            await woken
        except asyncio.CancelledError:
            if woken.done() and not woken.cancelled():
                # What it was woken for is somebody else's now.
                self._wake_worker()
            raise

    def _wake_worker(self) -> None:
        """One that is idle, if there is a key for it: of a hundred, the others need not look."""
        while self._idle and self._has_next:
            woken = self._idle.popleft()
            if not woken.done():
                woken.set_result(None)
                return

    def _due(self, key: K) -> None:
        self.add(key, ahead=self._timers.pop(key).ahead)


@dataclass(slots=True)
class _Timer:
    handle: asyncio.TimerHandle
    ahead: bool


class _Line(Generic[K]):
    """First come, first served, in two lines: a few of the one in a row, then one of the other."""

    def __init__(self) -> None:
        self._ahead: OrderedDict[K, None] = OrderedDict()
        self._behind: OrderedDict[K, None] = OrderedDict()
        self._in_a_row = 0

    def __len__(self) -> int:
        return len(self._ahead) + len(self._behind)

    def lengths(self) -> tuple[int, int]:
        """Of the line ahead and of the other."""
        return len(self._ahead), len(self._behind)

    def join(self, key: K, *, ahead: bool) -> None:
        (self._ahead if ahead else self._behind)[key] = None

    def advance(self, key: K) -> None:
        """To the end of the line ahead, if it stands behind."""
        if key in self._behind:
            del self._behind[key]
            self._ahead[key] = None

    def next(self, *, others_too: bool) -> K:
        others_wait = others_too and bool(self._behind)
        turn_of_others = not self._ahead or (others_wait and self._in_a_row >= _AHEAD_IN_A_ROW)
        self._in_a_row = 0 if turn_of_others else self._in_a_row + 1
        return (self._behind if turn_of_others else self._ahead).popitem(last=False)[0]
