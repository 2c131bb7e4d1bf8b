"""The important first, and at the cost of what is less so."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.cluster import PROMISED, Cluster, Group, Pod


class Priority:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        pass

    def group_rank(self, group: Group) -> float:
        return -group.priority

    def subgroup_rank(self, group: Group, subgroup: tuple[Any, ...] | None) -> float:
        return -max(pod.priority for pod in group.pods if pod.subgroup == subgroup)

    def pod_rank(self, pod: Pod) -> float:
        return -pod.priority

    def is_starving(self, group: Group) -> bool:
        """As long as a single pod has nothing."""
        return len(group.having(PROMISED)) < len(group.pods)

    def preemptable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        return [pod for pod in candidates if self._is_less_important(pod, contender)]

    def _is_less_important(self, pod: Pod, contender: Pod) -> bool:
        """Within a group pods are compared, otherwise their groups."""
        assert pod.group is not None
        assert contender.group is not None
        if pod.group is contender.group:
            return pod.priority < contender.priority
        return pod.group.priority < contender.group.priority
