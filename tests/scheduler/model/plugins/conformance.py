"""What the cluster itself needs stays."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.cluster import Cluster, Pod

_CRITICAL = ("system-cluster-critical", "system-node-critical")


class Conformance:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        pass

    def preemptable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        return [pod for pod in candidates if pod.priority_class not in _CRITICAL and pod.namespace != "kube-system"]

    reclaimable = preemptable
