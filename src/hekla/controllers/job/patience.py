"""How long a plugin that did not come with Hekla may take: a call that never ends must not end the controllers.

All Jobs are looked at in one event loop. A call that lasts too long is woken up in it with an exception, and its plugin
is then left alone for a while: every Job that names it would hold up all others as long. Works where the loop runs in
the main thread, as it does in `hekla controllers`: only there a sleeping call can be woken up.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

from hekla.clock import Clock
from hekla.errors import HeklaError

_SECONDS = 2.0  # of one call
_TIMES_FOR_LOADING = 20  # it may import a lot; still less than a leader may stand still
_TIMES_LEFT_ALONE = 30
# Who catches the first exception is woken up again.
_KNOCKS_EVERY = 0.5
# Where a call begins and ends: a knock that finds it here would be heard by nobody, or leave the alarm set.
_DOORS = frozenset({__name__, "contextlib"})


class TakesTooLong(HeklaError):
    """A plugin takes longer than it may, or did so a short while ago."""


class _TooLong(BaseException):
    """Raised in the plugin. Not an Exception: its author may catch these."""


class Endless:
    """For commands, whose user can end them."""

    def calling(self, name: str, *, loading: bool = False) -> AbstractContextManager[None]:
        return nullcontext()


class Patience:
    def __init__(self, clock: Clock, seconds: float = _SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._alone: dict[str, tuple[float, str]] = {}  # until when, and why
        self._called = False

    @contextmanager
    def calling(self, name: str, *, loading: bool = False) -> Iterator[None]:
        """While the block runs, it is the plugin's. Raises TakesTooLong."""
        until, why = self._alone.get(name, (0.0, ""))
        if why and self._clock.monotonic() < until:
            raise TakesTooLong(why)
        seconds = self._seconds * (_TIMES_FOR_LOADING if loading else 1)
        try:
            with self._knocking(seconds):
                yield
        except _TooLong as error:
            pause = seconds * _TIMES_LEFT_ALONE
            why = f"took longer than {seconds:g} s and is left alone for {pause:g} s"
            self._alone[name] = self._clock.monotonic() + pause, why
            raise TakesTooLong(why) from error

    @contextmanager
    def _knocking(self, seconds: float) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # Never taken back: a knock on its way when the block ends must find somebody at home.
        signal.signal(signal.SIGALRM, self._knock)
        self._called = True
        signal.setitimer(signal.ITIMER_REAL, seconds, _KNOCKS_EVERY)
        try:
            yield
        finally:
            self._called = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _knock(self, _: int, frame: FrameType | None) -> None:
        if self._called and frame is not None and frame.f_globals.get("__name__") not in _DOORS:
            raise _TooLong
