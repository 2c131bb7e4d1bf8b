"""Disruption budgets hold for the scheduler's evictions too."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.cluster import Cluster, Pod


class Pdb:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        self._cluster = cluster

    def preemptable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """Those whom every budget that covers them can still afford. Each that is looked at counts, also one that
        stays for the sake of another budget; and those who were told to go earlier in the cycle.

        ours: a pod without labels may leave like any other.
        """
        looked_at = [pod for pod in self._cluster.pods if pod.evicted]
        allowed = []
        for pod in candidates:
            looked_at.append(pod)
            covering = [budget for budget in self._cluster.budgets if budget.covers(pod)]
            if all(sum(map(budget.covers, looked_at)) <= budget.allowed for budget in covering):
                allowed.append(pod)
        return allowed

    reclaimable = preemptable
