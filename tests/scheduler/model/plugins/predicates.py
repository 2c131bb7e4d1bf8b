"""Whether a node takes a pod, room aside."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.amounts import PODS
from tests.scheduler.model.cluster import Cluster, Node, Pod

SLOTS = "node(s) pod number exceeded"
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}  # as if it were a taint


class Predicates:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        self._cluster = cluster

    def refusals(self, pod: Pod, node: Node) -> list[tuple[str, bool]]:
        """Each with whether nobody's leaving would help; the first of that kind ends the list.

        Those who were told to go in this cycle are looked at as gone, those who leave for other reasons not.
        """
        staying = [other for other in self._cluster.on(node) if not other.evicted]
        found = [] if len(staying) < node.allocatable.get(PODS, 0.0) else [(SLOTS, False)]
        if node.unschedulable and not _is_tolerated(_CORDON, pod):
            return [*found, ("node(s) were unschedulable", True)]
        if not pod.selector.items() <= node.labels.items():
            return [*found, ("node(s) didn't match Pod's node affinity/selector", True)]
        if any(not _is_tolerated(taint, pod) for taint in node.taints):
            return [*found, ("node(s) had untolerated taint(s)", True)]
        if any(pod.ports & other.ports for other in staying):
            found.append(("node(s) didn't have free ports for the requested pod ports", False))
        return found


def _is_tolerated(taint: dict[str, str], pod: Pod) -> bool:
    """What is only to be avoided where possible is no reason to refuse."""
    return taint["effect"] == "PreferNoSchedule" or any(
        toleration.get("effect", taint["effect"]) == taint["effect"]
        and toleration.get("key", taint["key"]) == taint["key"]
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in pod.tolerations
    )
