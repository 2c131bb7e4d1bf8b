"""Dominant resource fairness: who has the smaller share of what it has most of comes first."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.amounts import Amounts, dominant_share, minus, plus
from tests.scheduler.model.cluster import Cluster, Group, Pod

_EQUAL = 1e-6


class Drf:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        self._total = cluster.total

    def group_rank(self, group: Group) -> float:
        return dominant_share(group.held, self._total)

    def preemptable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """Those without whom their group still has as large a share as the contender's would have with it.

        One after the other is taken from its group, also those that stay.
        """
        assert contender.group is not None
        mark = dominant_share(plus(contender.group.held, contender.request), self._total)
        left: dict[Group, Amounts] = {}
        allowed = []
        for pod in candidates:
            assert pod.group is not None
            left[pod.group] = minus(left.get(pod.group, pod.group.held), pod.request)
            if mark <= dominant_share(left[pod.group], self._total) + _EQUAL:
                allowed.append(pod)
        return allowed
