"""Steps that are kept or taken back together."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.scheduler.model.cluster import Node, Pod, Status


@dataclass(eq=False)
class _Step:
    pod: Pod
    node: str  # where it was
    status: Status  # what it was
    reason: str = ""  # of an eviction


@dataclass(eq=False)
class Attempt:
    steps: list[_Step] = field(default_factory=list)

    def place(self, pod: Pod, node: Node, status: Status, *, cleared: bool = False) -> None:
        self.steps.append(_Step(pod, pod.node, pod.status))
        pod.node, pod.status, pod.cleared = node.name, status, cleared

    def evict(self, pod: Pod, reason: str) -> None:
        self.steps.append(_Step(pod, pod.node, pod.status, reason))
        pod.status, pod.evicted = Status.RELEASING, True

    def take_over(self, other: Attempt) -> None:
        self.steps += other.steps

    def take_back(self) -> None:
        """The last step first. What a pod nearly got is remembered: it is told so."""
        for step in reversed(self.steps):
            pod = step.pod
            if not step.reason:
                pod.tried = (pod.status, pod.node, pod.cleared)
            pod.node, pod.status, pod.evicted, pod.cleared = step.node, step.status, False, False
        self.steps.clear()

    def keep(self, bindings: dict[str, str], evictions: dict[str, str]) -> None:
        """Those that have room now go to their nodes. A promise lasts as long as the cycle."""
        for step in self.steps:
            if step.reason:
                evictions[step.pod.name] = step.reason
                continue
            step.pod.tried = None
            if step.pod.status is Status.ALLOCATED:
                step.pod.status = Status.BINDING
                bindings[step.pod.name] = step.pod.node
        self.steps.clear()
