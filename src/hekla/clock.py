"""The only place that reads the time.

Everything that needs "now" is handed a Clock. Waiting is `asyncio.sleep` and `asyncio.timeout`: the event
loop itself is virtual in simulation (`tests/integration/virtual_loop.py`), so waits need no second seam.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, aware and in UTC. May jump; use for timestamps in objects."""

    def monotonic(self) -> float:
        """Seconds that only grow, also while the machine sleeps; use for measuring and for deadlines."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class LoopClock:
    """A clock that follows the running event loop's time: virtual when the loop is."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
