"""How long the parts of a cycle took. The core reads no clock of its own: it is given one, or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")

PREDICATE, SCORING = "Predicate", "Scoring"
OPENING, CLOSING = "OnSessionOpen", "OnSessionClose"


class Timings:
    """Seconds, summed up over one cycle."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now
        self.opening = 0.0
        self.actions: defaultdict[str, float] = defaultdict(float)
        self.plugins: defaultdict[tuple[str, str], float] = defaultdict(float)  # by plugin, and OPENING or CLOSING
        self.stages: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, table: defaultdict[K, float], name: K) -> Iterator[None]:
        started = self.now()
        try:
            yield
        finally:
            table[name] += self.now() - started

    def now(self) -> float:
        return self._now() if self._now is not None else 0.0
