"""An event loop whose time is virtual: when nothing is ready, the clock jumps to the next timer.

Hours of waiting pass in milliseconds, and the same program does the same thing each time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_TURNS = 1000
_TICK_SECONDS = 1e-6


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: whoever waits will wait for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual_time = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._virtual_time

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """At once and on this thread: another one would take real time, and its end come at any moment."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def jump(self, seconds: float) -> None:
        self._virtual_time += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._busy = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        self._busy = self._busy + 1 if timeout <= 0 else 0
        # Work takes no time here, unless it goes on and on: a moment too near for a timer must come as well.
        self._loop.jump(timeout if self._busy < _TURNS else _TICK_SECONDS)
        return []


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
