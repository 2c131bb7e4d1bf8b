"""Who may go next, where only so many may go at a time: first come, first served, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from hekla.client.alarm import Alarm


class _Waiting(NamedTuple):
    until: float
    turn: asyncio.Future[None]


class Turns:
    def __init__(self, most: int) -> None:
        self._free = most
        self._line: deque[_Waiting] = deque()
        self._alarm = Alarm(self._look_at_time)

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for a turn."""
        return bool(self._line)

    def take_at_once(self) -> bool:
        """Take a turn if one is free: then nobody waits. Whoever has a turn must `give_back` it."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self, until: float) -> None:
        """Wait for a turn; TimeoutError when none has come `until` then, in the loop's time."""
        waiting = _Waiting(until, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        self._alarm.set(until)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
                self.give_back()
            raise

    def give_back(self) -> None:
        """To whoever waits longest, if anybody does."""
        while self._line:
            turn = self._line.popleft().turn
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _look_at_time(self) -> None:
        now = asyncio.get_running_loop().time()
        for waiting in self._line:
            if waiting.until <= now and not waiting.turn.done():
                waiting.turn.set_exception(TimeoutError())
        self._line = deque(waiting for waiting in self._line if not waiting.turn.done())
        if self._line:
            self._alarm.set(min(waiting.until for waiting in self._line))
