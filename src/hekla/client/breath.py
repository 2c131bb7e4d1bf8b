"""Taking a breath: while the server is what everybody waits for, its answers are let gather for a moment.

A busy server sends an answer now and a change then. Who acts on each as it comes wakes up for every one of them, for
little work, and finds the processor's caches full of the server's things. A moment later there are several, and each
costs less: time that on a shared machine is the server's. Where requests stand in line at the server, nothing comes
later for it. Where it answers as fast as it is asked, and answers only take their time to get here, each breath delays
what is asked next: so it is a small part of that time, and none where answers come at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# What has come is acted on for so long.
_WORK_SECONDS = 0.005
_LATE_SECONDS = 0.02
_LONGEST_SECONDS = 0.03
_SHORTEST_SECONDS = 0.002
_GROWTH = 1.25
# No more of what is under way is to be answered from one breath to the next: one part of so many.
_PARTS = 6


class Breath:
    def __init__(
        self, under_way: int, crowded: Callable[[], bool], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """It is `crowded` while `under_way` requests are with the server and others wait for their turn.

        `sleep` blocks the event loop, on purpose: nothing is to wake this process.
        """
        self._enough = under_way // _PARTS
        self._crowded = crowded
        self._sleep = sleep
        self._seconds = _SHORTEST_SECONDS
        self._answered = 0
        self._due: float | None = None

    def crowd(self) -> None:
        """Somebody has to wait for a turn."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._answered = 0
            self._due = loop.time() + _WORK_SECONDS
            loop.call_at(self._due, self._look, self._due)

    def answered(self) -> None:
        """A request was answered, or has failed."""
        self._answered += 1

    def _look(self, due: float) -> None:
        self._due = None
        if not self._crowded():
            return
        # One who has come late to this has so much to do that it is him who is waited for.
        if asyncio.get_running_loop().time() - due <= _LATE_SECONDS:
            self._take()
        self.crowd()

    def _take(self) -> None:
        if self._answered <= self._enough:
            self._seconds = min(self._seconds * _GROWTH, _LONGEST_SECONDS)
        else:
            self._seconds /= 2
        if self._seconds >= _SHORTEST_SECONDS:
            self._sleep(self._seconds)
        else:
            self._seconds = _SHORTEST_SECONDS
