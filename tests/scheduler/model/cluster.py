"""What there is: nodes, queues, groups of pods. Only pods change during a cycle, in where they are and in which state.

Everything else is added up from them whenever somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.scheduler.model.amounts import BASIC, Amounts, beyond, minus, plus, total


class Status(StrEnum):
    PENDING = "has no node"
    ALLOCATED = "was given a node in this cycle"
    PIPELINED = "was promised room that others are still in"
    BINDING = "goes to its node"
    BOUND = "has a node, and does not run yet"
    RUNNING = "runs"
    RELEASING = "is leaving"
    SUCCEEDED = "has ended well"
    FAILED = "has ended badly"
    UNKNOWN = "nobody knows"


HOLDING = frozenset({Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING})
READY = HOLDING | {Status.SUCCEEDED}
PROMISED = READY | {Status.PIPELINED}
POSSIBLE = PROMISED | {Status.PENDING}
ENDED = frozenset({Status.SUCCEEDED, Status.FAILED})


@dataclass(eq=False)
class Pod:
    name: str
    namespace: str
    uid: str
    created: str
    node: str
    status: Status
    request: Amounts
    best_effort: bool  # asks for nothing
    priority: int
    priority_class: str
    role: str
    labels: dict[str, str]
    selector: dict[str, str]
    tolerations: list[dict[str, str]]
    ports: frozenset[int]
    ours: bool  # not another scheduler's
    preemptable: bool
    preempts: bool
    gated: bool
    deleted: bool
    nominated: str
    group: Group | None = None
    subgroup: tuple[Any, ...] | None = None  # which policy of its group put it there, and by which values
    evicted: bool = False  # in this cycle
    cleared: bool = False  # others had to leave for it
    tried: tuple[Status, str, bool] | None = None  # what was taken back again: state, node, whether it was cleared


@dataclass(eq=False)
class Group:
    name: str
    namespace: str
    queue: Queue
    created: str
    priority: int
    minimum: int
    of_role: dict[str, int]
    policies: list[dict[str, Any]]
    needs: Amounts | None  # its minimum in resources, where it says so
    phase: str
    pods: list[Pod] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)  # by uid: why a pod found no node

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def having(self, statuses: Iterable[Status]) -> list[Pod]:
        return [pod for pod in self.pods if pod.status in statuses]

    def pending(self) -> list[Pod]:
        """Those nothing holds back."""
        return [pod for pod in self.having({Status.PENDING}) if not pod.gated]

    @property
    def held(self) -> Amounts:
        """What its pods have or were promised; those who leave have given it up."""
        return total(pod.request for pod in self.having(HOLDING | {Status.PIPELINED}))

    @property
    def claim(self) -> Amounts:
        """Its minimum, less what pods ask for that are held at a gate."""
        left = self.needs or {}
        for pod in self.having({Status.PENDING}):
            if pod.gated:
                left = beyond(left, pod.request)
        return left

    @property
    def is_inside(self) -> bool:
        """Whether room is kept for what it lacks of its minimum: it was let in, or runs in full number."""
        runs = self.phase == "Running" and len(self.having(HOLDING)) >= self.minimum
        return self.needs is not None and (runs or self.phase == "Inqueue")


@dataclass(eq=False)
class Queue:
    name: str
    created: str
    weight: int
    priority: int
    is_open: bool
    reclaimable: bool
    parent: str
    capability: Amounts
    deserved: Amounts
    guarantee: Amounts
    departments: list[tuple[str, float]]  # names and weights, from below the root

    @property
    def limit(self) -> Amounts:
        """A limit of no CPU or no memory is none."""
        return {name: amount for name, amount in self.capability.items() if amount > 0 or name not in BASIC}


@dataclass(eq=False)
class Node:
    name: str
    allocatable: Amounts
    labels: dict[str, str]
    taints: list[dict[str, str]]
    unschedulable: bool


@dataclass(eq=False)
class Budget:
    namespace: str
    selector: dict[str, str]
    allowed: int

    def covers(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and self.selector.items() <= pod.labels.items()


@dataclass(eq=False)
class Cluster:
    nodes: list[Node]  # by name: who comes first is taken of those that are as good
    queues: dict[str, Queue]
    groups: list[Group]
    pods: list[Pod]
    budgets: list[Budget]

    @property
    def total(self) -> Amounts:
        return total(node.allocatable for node in self.nodes)

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def on(self, node: Node) -> list[Pod]:
        """Those that ended have left."""
        return [pod for pod in self.pods if pod.node == node.name and pod.status not in ENDED]

    def used(self, node: Node) -> Amounts:
        return total(pod.request for pod in self.on(node) if pod.status is not Status.PIPELINED)

    def idle(self, node: Node) -> Amounts:
        return minus(node.allocatable, self.used(node))

    def later(self, node: Node) -> Amounts:
        """What is free once those who leave have left, and promises are kept."""
        here = self.on(node)
        leaving = total(pod.request for pod in here if pod.status is Status.RELEASING)
        promised = total(pod.request for pod in here if pod.status is Status.PIPELINED)
        return minus(plus(self.idle(node), leaving), promised)

    def groups_in(self, queues: Iterable[str]) -> list[Group]:
        return [group for group in self.groups if group.queue.name in queues]
