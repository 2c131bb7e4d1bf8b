"""What pods that wait are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.scheduler.model.cluster import Cluster, Group, Node, Pod, Status


@dataclass(frozen=True)
class Told:
    reason: str
    message: str | None  # None where it is of the group that the pod is told
    nominated: str = ""


def told(group: Group) -> dict[str, Told]:
    """By name of the pod. Where pods of the group are on their way to nodes the others are told nothing yet."""
    if group.having({Status.BINDING}):
        return {}
    waiting = group.having({Status.PENDING, Status.ALLOCATED, Status.PIPELINED})
    return {pod.name: _told(group, pod) for pod in waiting if not pod.gated}


def _told(group: Group, pod: Pod) -> Told:
    """What it nearly got says more than what it did not get."""
    status, node, cleared = pod.tried or (pod.status, pod.node, pod.cleared)
    possible = f"Pod {pod.namespace}/{pod.name} can possibly be assigned to {node}, once"
    if status is Status.ALLOCATED:
        return Told("Schedulable", f"{possible} minAvailable is satisfied")
    if status is Status.PIPELINED:
        text = f"{possible} resource is released and minAvailable is satisfied"
        return Told("Unschedulable", text, node if cleared else "")
    return Told("Unschedulable", group.errors.get(pod.uid))


def of_nodes(cluster: Cluster, refusals: Callable[[Node], list[str]]) -> str:
    """How many nodes refuse a pod for which reason."""
    counts = Counter(text for node in cluster.nodes for text in refusals(node))
    said = f"0/{len(cluster.nodes)} nodes are unavailable"
    reasons = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"{said}: {reasons}." if reasons else said


def of_role(pod: Pod) -> str:
    return f"Task {pod.name} with role spec {pod.role} has already predicated failed, skip"
