"""Time budgets for plugins: a call that never ends must not end scheduling.

While a cycle runs, a thread knocks on the main thread a few times a second; whoever is found in the same call of the
same plugin for too long, or in too many calls of it, is lost for the cycle. Plugins that come with Hekla are not
watched, and with no others nothing is started. Loading them is watched as well, with more patience: they may import a
lot. Works where cycles run in the main thread, as they do in `hekla scheduler`: only there a sleeping call can be woken
up.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from hekla.scheduler.blame import PluginFailure, PluginLost, TooLong
from hekla.scheduler.config import Config

BUDGET_SECONDS = 2.0  # of one call, where nobody says otherwise
_KNOCK = signal.SIGVTALRM
_KNOCKS_PER_CALL = 8  # within the budget of one call
_CALLS_PER_CYCLE = 5.0  # all calls of a cycle together may take this many times the budget of one
# And loading a plugin this many times: it may import a lot. Still less than a leader may stand still.
_CALLS_PER_LOADING = 20.0
_OURS = "hekla."


class Watchdog:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._knock_seconds = seconds / _KNOCKS_PER_CALL
        self._names: Mapping[object, str] = {}  # by class, and by module for functions that stand beside it
        self._call: FrameType | None = None
        self._knocks = 0
        self._of_plugin: Counter[str] = Counter()
        self._loading = False

    @contextlib.contextmanager
    def over(self, config: Config) -> Iterator[None]:
        """Watch the plugins of a configuration while the block runs."""
        entries = [entry for tier in config.tiers for entry in tier if not entry.plugin.__module__.startswith(_OURS)]
        self._names = {key: entry.name for entry in entries for key in (entry.plugin, entry.plugin.__module__)}
        self._call, self._knocks = None, 0
        self._of_plugin.clear()
        try:
            with self._knocking(self._look) if entries else contextlib.nullcontext():
                yield
        finally:
            self._names = {}

    @contextlib.contextmanager
    def over_loading(self) -> Iterator[None]:
        """Watch whatever is loaded while the block runs; each plugin that takes too long has `TooLong` raised in it."""
        self._loading, self._knocks = True, 0
        try:
            with self._knocking(self._look_at_loading):
                yield
        finally:
            self._loading = False

    @contextlib.contextmanager
    def _knocking(self, look: Callable[[int, FrameType | None], None]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        done = threading.Event()
        # Never taken back: a knock on its way when the block ends must find somebody at home.
        signal.signal(_KNOCK, look)
        knocking = threading.Thread(target=self._knock, args=(done,), name="watchdog", daemon=True)
        knocking.start()
        try:
            yield
        finally:
            done.set()
            knocking.join()

    def _knock(self, done: threading.Event) -> None:
        while not done.wait(self._knock_seconds):
            signal.pthread_kill(threading.main_thread().ident or 0, _KNOCK)

    def _look(self, _: int, frame: FrameType | None) -> None:
        call, name = self._plugin_call(frame)
        if call is None:
            self._call = None
            return
        self._knocks = self._knocks + 1 if call is self._call else 1
        self._call = call
        self._of_plugin[name] += 1
        in_all = self._of_plugin[name] * self._knock_seconds
        if self._knocks >= _KNOCKS_PER_CALL:
            self._end(name, f"a call took longer than {self._seconds:g} s", frame)
        elif in_all >= _CALLS_PER_CYCLE * self._seconds:
            self._end(name, f"its calls took longer than {_CALLS_PER_CYCLE * self._seconds:g} s in one cycle", frame)

    def _look_at_loading(self, _: int, frame: FrameType | None) -> None:
        self._knocks += 1
        most = _CALLS_PER_LOADING * self._seconds
        if self._loading and self._knocks * self._knock_seconds >= most:
            # What is loaded next has all the time again.
            self._knocks = 0
            raise TooLong(f"not done after {most:g} s")

    def _plugin_call(self, frame: FrameType | None) -> tuple[FrameType | None, str]:
        """The outermost frame of a watched plugin: where it was called."""
        found: tuple[FrameType | None, str] = (None, "")
        while frame is not None:
            own = type(frame.f_locals.get("self"))
            name = self._names.get(own) or self._names.get(str(frame.f_globals.get("__name__")))
            if name is not None:
                found = (frame, name)
            frame = frame.f_back
        return found

    def _end(self, name: str, text: str, frame: FrameType | None) -> None:
        self._call = None
        trace = "".join(traceback.format_stack(frame)).rstrip()
        raise PluginLost(PluginFailure(name, text, trace, slow=True))
