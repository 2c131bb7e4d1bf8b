"""Keys waiting to be looked at.

A key is in the queue at most once, and never handed to two workers at the same time: added while it is being worked
on, it comes back when that work is `done`. Failures come back later and later, for ever: a retry limit would drop a
user's work. What somebody waits for goes before what is usual, and that before what has only to be told; of many
turns, one is for those behind, and of what has to be told only so much need be worked on at a time.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FIRST_BACK_OFF = 0.005
_LONGEST_BACK_OFF = 30.0
_BEFORE_ONE_BEHIND = 8


class Urgency(IntEnum):
    """The smaller one goes first."""

    AWAITED = 0
    USUAL = 1
    TOLD = 2


class WorkQueue(Generic[K]):
    def __init__(self, *, told_at_a_time: int = sys.maxsize) -> None:
        """At most so many of those that have only to be told are worked on at a time."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._line = _Line[K]()
        self._told_at_a_time = told_at_a_time
        self._being_told = 0
        self._waiting: dict[K, Urgency] = {}
        self._busy: dict[K, Urgency] = {}
        self._timers: dict[K, _Timer] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K, urgency: Urgency = Urgency.USUAL) -> None:
        """Have the key looked at as soon as its turn comes; wanted twice, it has the more urgent one."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()
            urgency = min(urgency, timer.urgency)
        known = self._waiting.get(key)
        if known is None:
            self._waiting[key] = urgency
            if key not in self._busy:
                self._stand_in_line(key)
        elif urgency < known:
            self._waiting[key] = urgency
            self._line.move(key, known, urgency)
            self._wake_worker()

    def add_after(self, key: K, seconds: float, urgency: Urgency = Urgency.USUAL) -> None:
        """Have the key looked at in `seconds`, or earlier if something else asks for it earlier."""
        if seconds <= 0:
            self.add(key, urgency)
            return
        if self._waiting.get(key, sys.maxsize) <= urgency:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            urgency = min(urgency, timer.urgency)
            if timer.handle.when() <= due:
                timer.urgency = urgency
                return
            timer.handle.cancel()
        self._timers[key] = _Timer(loop.call_at(due, self._due, key), urgency)

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """The work on the key failed: back it comes, later each time. Returns the delay in seconds.

        Not before `at_least` seconds, as far as that is no longer than the longest delay. It is as urgent as it was.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(max(_FIRST_BACK_OFF * 2 ** min(failures, 20), at_least), _LONGEST_BACK_OFF)
        self.add_after(key, delay, self._busy.get(key, Urgency.USUAL))
        return float(delay)

    def hasten(self) -> None:
        """Have everything looked at now that would be later."""
        for key, timer in list(self._timers.items()):
            self.add(key, timer.urgency)

    def forget(self, key: K) -> None:
        """The work succeeded: the next failure starts from the shortest delay again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key. The caller must call `done` for it, whatever happens."""
        while not self._has_next:
            await self._be_woken()
        key = self._line.next(may_tell=self._may_tell)
        urgency = self._busy[key] = self._waiting.pop(key)
        self._being_told += urgency is Urgency.TOLD
        return key

    def done(self, key: K) -> None:
        if self._busy.pop(key) is Urgency.TOLD:
            self._being_told -= 1
            self._wake_worker()
        if key in self._waiting:
            self._stand_in_line(key)

    def widen(self, told_at_a_time: int) -> None:
        """So many of those that have only to be told may be worked on at a time from now on."""
        more, self._told_at_a_time = told_at_a_time - self._told_at_a_time, told_at_a_time
        for _ in range(min(more, len(self._idle))):
            self._wake_worker()

    def has_only_to_be_told(self, key: K) -> bool:
        """Whether the key is worked on for nothing more urgent than that."""
        return self._busy[key] is Urgency.TOLD

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()

    def __len__(self) -> int:
        return len(self._line)

    def _stand_in_line(self, key: K) -> None:
        self._line.join(key, self._waiting[key])
        self._wake_worker()

    @property
    def _has_next(self) -> bool:
        return self._line.has_next(may_tell=self._may_tell)

    @property
    def _may_tell(self) -> bool:
        return self._being_told < self._told_at_a_time

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
        self.add(key, self._timers.pop(key).urgency)


@dataclass(slots=True)
class _Timer:
    handle: asyncio.TimerHandle
    urgency: Urgency


class _Line(Generic[K]):
    """First come, first served, in a line for each urgency: some turns of the one, then one of those behind."""

    def __init__(self) -> None:
        self._lines: list[OrderedDict[K, None]] = [OrderedDict() for _ in Urgency]
        self._in_a_row = [0 for _ in Urgency]

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    def join(self, key: K, urgency: Urgency) -> None:
        self._lines[urgency][key] = None

    def move(self, key: K, before: Urgency, after: Urgency) -> None:
        """To the end of another line, if it stands in the one; it may be worked on, and not stand in line yet."""
        if key in self._lines[before]:
            del self._lines[before][key]
            self._lines[after][key] = None

    def has_next(self, *, may_tell: bool) -> bool:
        *others, told = self._lines
        return any(others) or (may_tell and bool(told))

    def next(self, *, may_tell: bool) -> K:
        standing = [at for at, line in enumerate(self._lines) if line and (may_tell or at != Urgency.TOLD)]
        for at in standing[:-1]:
            if self._in_a_row[at] < _BEFORE_ONE_BEHIND:
                self._in_a_row[at] += 1
                return self._take(at)
            self._in_a_row[at] = 0
        # Nobody waits behind it.
        self._in_a_row[standing[-1]] = 0
        return self._take(standing[-1])

    def _take(self, at: int) -> K:
        return self._lines[at].popitem(last=False)[0]
