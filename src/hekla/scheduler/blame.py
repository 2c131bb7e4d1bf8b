"""Whose fault it was: which plugin an error came from, and what becomes of the cycle then.

A plugin that fails over one group costs that group its turn. One that cannot even be opened, that loses count of what
was placed, or that takes too long is lost for the whole cycle: `run_cycle` starts again without it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any


class TooLong(BaseException):
    """Raised in a plugin that is being loaded, and does not come to an end. Not an Exception, as below."""


# What comes out of somebody else's code and we survive. Who ends the program there has its own in mind, not ours.
FAILURES = (Exception, SystemExit, TooLong)


@dataclass(frozen=True, slots=True)
class PluginFailure:
    plugin: str
    text: str
    trace: str
    slow: bool = False  # it did not fail, it took too long

    @property
    def sentence(self) -> str:
        return f"scheduler plugin {self.plugin} failed: {self.text}"


class PluginLost(BaseException):
    """No answer of this plugin can be trusted in this cycle. Not an Exception: nobody on the way may swallow it."""

    def __init__(self, failure: PluginFailure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


def failure_of(plugin: str, error: BaseException) -> PluginFailure:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return PluginFailure(plugin, text, "".join(traceback.format_exception(error)).rstrip())


def culprit(trace: TracebackType | None, plugins: Mapping[str, object]) -> str | None:
    """The plugin, by name, in whose code an error arose: the innermost one on the way to it."""
    found = None
    while trace is not None:
        owners = _owners_of(trace.tb_frame, plugins)
        if owners and found not in owners:
            found = owners[0]
        trace = trace.tb_next
    return found


def _owners_of(frame: FrameType, plugins: Mapping[str, object]) -> list[str]:
    """The plugin whose method a frame runs, or else those in whose module its code stands."""
    own, module = frame.f_locals.get("self"), frame.f_globals.get("__name__")
    by_method = [name for name, plugin in plugins.items() if plugin is own]
    return by_method or [name for name, plugin in plugins.items() if type(plugin).__module__ == module]


class Guarded:
    """A plugin's listener; when it fails, what the plugin believes is no longer what is."""

    def __init__(self, plugin: str, listener: Callable[..., Any]) -> None:
        self._plugin = plugin
        self._listener = listener

    def __call__(self, *moved: Any) -> None:
        try:
            self._listener(*moved)
        except Exception as error:
            raise PluginLost(failure_of(self._plugin, error)) from error
