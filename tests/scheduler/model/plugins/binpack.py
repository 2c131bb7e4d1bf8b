"""Fill nodes up: the fuller a node would be in what a pod asks for, the better."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.amounts import BASIC, PODS
from tests.scheduler.model.cluster import Cluster, Node, Pod

_RESOURCES = "binpack.resources"


class Binpack:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        self._cluster = cluster
        self._counted = (*BASIC, (entry.get("arguments") or {}).get(_RESOURCES, ""))

    def score(self, pod: Pod, node: Node) -> float:
        """0 … 100; nothing where it would overflow. What the node has none of counts as empty."""
        used, full, number = self._cluster.used(node), 0.0, 0
        for name in self._counted:
            asked, there = pod.request.get(name, 0.0), node.allocatable.get(name, 0.0)
            if asked <= 0 or name == PODS:
                continue
            if used.get(name, 0.0) + asked > there:
                return 0.0
            number += 1
            full += (used.get(name, 0.0) + asked) / there
        return full / number * 100 if number else 0.0
