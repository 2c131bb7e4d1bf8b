"""One timer for all who wait.

Hardly anybody waits until their time is over: an answer comes, or a turn. So to wait costs a comparison, not a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    def __init__(self, ring: Callable[[], None]) -> None:
        """`ring` is called at the earliest moment asked for, whether or not anybody still waits for it.

        It is for `ring` to see whose time has come, and to `set` the alarm again for the others.
        """
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, moment: float) -> None:
        """Ring at `moment`, in the loop's time, if not before."""
        if self._timer is not None:
            if self._timer.when() <= moment:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(moment, self._go_off)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._ring()
