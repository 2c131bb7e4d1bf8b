"""Taking a breath: while the server is what everybody waits for, its answers are let gather for a moment.

A busy server sends an answer now and a change then. Who acts on each as it comes wakes up for every one of them, for
little work, and finds the processor's caches full of the server's things. A moment later there are several, and each
costs less: time that on a shared machine is the server's. As long as requests stand in line there, nothing comes later
for it. With a server that is only far away it would: so one is a busy server whose answers take several times as long
as the fastest did.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

# What has come is acted on for so long.
_WORK_SECONDS = 0.005
_LATE_SECONDS = 0.02
_LONGEST_SECONDS = 0.03
_SHORTEST_SECONDS = 0.002
_GROWTH = 1.25
_TIMES_THE_FASTEST = 8


class Breath:
    def __init__(
        self, under_way: int, crowded: Callable[[], bool], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """It is `crowded` while `under_way` requests are with the server and others wait for their turn.

        `sleep` blocks the event loop, on purpose: nothing is to wake this process.
        """
        self._under_way = under_way
        self._crowded = crowded
        self._sleep = sleep
        self._seconds = _SHORTEST_SECONDS
        self._fastest, self._usual = math.inf, 0.0
        self._answered = 0
        self._looks = False

    def crowd(self) -> None:
        """Somebody has to wait for a turn."""
        if not self._looks:
            self._looks = True
            self._look_soon()

    def answered(self, after: float) -> None:
        """A request was answered, or has failed, so many seconds after its turn came."""
        self._answered += 1
        self._fastest = min(self._fastest, after)
        self._usual += (after - self._usual) / self._under_way

    def _look_soon(self) -> None:
        self._answered = 0
        loop = asyncio.get_running_loop()
        due = loop.time() + _WORK_SECONDS
        loop.call_at(due, self._look, due)

    def _look(self, due: float) -> None:
        if not self._crowded():
            self._looks = False
            return
        late = asyncio.get_running_loop().time() - due
        # One who has come late to this has so much to do that it is him who is waited for.
        if late <= _LATE_SECONDS and self._usual > _TIMES_THE_FASTEST * self._fastest:
            self._take()
        self._look_soon()

    def _take(self) -> None:
        if self._answered <= self._under_way // 2:
            self._seconds = min(self._seconds * _GROWTH, _LONGEST_SECONDS)
        else:
            # In a little more time all would have been answered, and the server idle.
            self._seconds /= 2
        if self._seconds >= _SHORTEST_SECONDS:
            self._sleep(self._seconds)
        else:
            self._seconds = _SHORTEST_SECONDS
