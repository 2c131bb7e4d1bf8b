"""What a queue holds against what it may hold, as told to people: one entry for each resource."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hekla.scheduler.rows import show_amount


class Entry(NamedTuple):
    """Amounts as the tables have them; `limit` is infinite where there is none."""

    resource: str
    held: float
    entered: float  # asked for by groups that were let in and do not hold it yet
    elastic: float  # held beyond the minima of groups: that keeps nobody out
    deserved: float
    limit: float

    def record(self, *, outside: bool) -> dict[str, Any]:
        """JSON-able; without limit there is no `limit`, and nothing is left of it.

        For a group that is `outside`, not let in yet, counts also who was let in before it; for others what is held.
        """
        taken = self.held + self.entered - self.elastic if outside else self.held
        shown = {"held": self.held, **({"letIn": self.entered} if outside else {}), "deserved": self.deserved}
        shown |= {"limit": self.limit, "left": max(0.0, self.limit - taken)}
        return {
            "name": self.resource,
            **{word: show_amount(self.resource, amount) for word, amount in shown.items() if math.isfinite(amount)},
        }


class Book(NamedTuple):
    queue: str
    entries: tuple[Entry, ...]
