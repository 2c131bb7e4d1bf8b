"""Plugins that failed, from cycle to cycle: told once in a while, and slow ones not asked again at once."""

from __future__ import annotations

from collections.abc import Iterable

from hekla.clock import Clock
from hekla.log import get_logger
from hekla.scheduler.blame import PluginFailure

log = get_logger("scheduler")

RETRY_SECONDS = 60.0
_REMEMBERED = 1000


class Failures:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], float] = {}
        self._suspended: dict[str, tuple[PluginFailure, float]] = {}

    def note(self, failures: Iterable[PluginFailure]) -> None:
        now = self._clock.monotonic()
        for failure in failures:
            if failure.slow and failure.plugin not in self.suspended():
                self._suspended[failure.plugin] = (failure, now)
            last = self._told.get((failure.plugin, failure.text))
            if last is None or now - last >= RETRY_SECONDS:
                if len(self._told) >= _REMEMBERED:
                    self._told.clear()
                self._told[failure.plugin, failure.text] = now
                log.error("scheduler plugin failed", plugin=failure.plugin, error=failure.text, trace=failure.trace)

    def suspended(self) -> dict[str, PluginFailure]:
        """Plugins that took too long a moment ago: to find that out again would cost the same time again."""
        now = self._clock.monotonic()
        self._suspended = {
            name: (failure, since) for name, (failure, since) in self._suspended.items() if now - since < RETRY_SECONDS
        }
        return {name: failure for name, (failure, _) in self._suspended.items()}
