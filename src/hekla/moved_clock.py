"""Tells when the time of day has moved by other than the passing of time.

Waits are measured by the event loop, and what is waited for is often a time of day. The two no longer agree when
somebody sets the clock, and when the machine has slept: meanwhile the loop's time stood still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hekla.clock import Clock
from hekla.log import get_logger

log = get_logger("clock")

_LOOK_EVERY_SECONDS = 5.0
# Less is made good by looking again, and a busy loop's own time is late by as much.
_TOLERATED_SECONDS = 2.0


async def watch_clock(clock: Clock, moved: Callable[[], None]) -> None:
    """Call `moved` each time that happens, until cancelled."""
    known = _lead(clock)
    while True:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        lead = _lead(clock)
        if abs(lead - known) > _TOLERATED_SECONDS:
            log.info("the clock has moved", seconds=round(lead - known))
            known = lead
            moved()


def _lead(clock: Clock) -> float:
    return clock.now().timestamp() - asyncio.get_running_loop().time()
