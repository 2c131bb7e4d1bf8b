"""Groups are let in for a fifth more than there is."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.amounts import Amounts, beyond, exceeds, minus, plus, total
from tests.scheduler.model.cluster import Cluster, Group

_FACTOR = 1.2


class Overcommit:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        most = {name: amount * _FACTOR for name, amount in cluster.total.items()}
        self._idle = minus(most, total(cluster.used(node) for node in cluster.nodes))
        self._inside = total(self._kept_for(group) for group in cluster.groups if group.is_inside)

    def may_enter(self, group: Group) -> bool:
        assert group.needs is not None
        return not exceeds(plus(self._inside, group.needs), self._idle, group.needs)

    def entered(self, group: Group) -> None:
        self._inside = plus(self._inside, group.claim)

    def _kept_for(self, group: Group) -> Amounts:
        """All of what one needs that was let in, also what it has by now; of one that runs only what it lacks."""
        return group.claim if group.phase == "Inqueue" else beyond(group.claim, group.held)
