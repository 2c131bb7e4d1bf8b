"""What every stage of a cycle works on, and what has been decided so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.scheduler.model.attempt import Attempt
from tests.scheduler.model.cluster import Cluster
from tests.scheduler.model.tiers import Tiers


@dataclass(eq=False)
class Decisions:
    cluster: Cluster
    tiers: Tiers
    actions: Sequence[str]
    bindings: dict[str, str] = field(default_factory=dict)  # node by pod
    evictions: dict[str, str] = field(default_factory=dict)  # action by pod

    def keep(self, attempt: Attempt) -> None:
        attempt.keep(self.bindings, self.evictions)
