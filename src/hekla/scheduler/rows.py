"""Rows: what the scheduler knows of pods, nodes, queues and groups, once read. Behind them nobody digs in a dict.

Rows are immutable. What pods of one template have in common is a Shape, and the part of it that chooses nodes is
Constraints; both are interned (`reading.py`), so that the core can answer once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from hekla.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET
from hekla.api.meta import Key
from hekla.api.quantity import format_binary, format_decimal
from hekla.api.scheduling import PodGroupPhase, QueueState
from hekla.api.selector import Selector
from hekla.scheduler.arrays.resources import MEMORY, PODS
from hekla.scheduler.company import Company

Amounts = dict[str, float]
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class PodStatus(IntEnum):
    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    @property
    def text(self) -> str:
        return self.name.capitalize()


class QueueGate(IntEnum):
    """Where a pod stands that asked to be held back by a scheduling gate until its queue has room for it."""

    NONE = 0  # it did not ask
    SHUT = 1  # held by that gate and no other
    OPENING = 2  # let in: the gate is being removed
    OPENED = 3


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term: all requirements on labels and on fields must hold."""

    labels: Selector
    names: Selector


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class HostPort:
    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Which nodes a pod accepts. Interned: equal constraints are one object."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    company: Company | None = None  # what it wants of other pods
    unsupported: tuple[str, ...] = ()

    @property
    def follows_pods(self) -> bool:
        """Whether the nodes that will do change as pods come and go."""
        return bool(self.ports) or self.company is not None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What pods of one template have in common. Interned: equal shapes are one object."""

    request: Amounts
    assumed_cpu: float
    assumed_memory: float
    best_effort: bool
    constraints: Constraints
    # How its nodes are to be filled, and with which weights: what pods are annotated with.
    strategy: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Condition:
    """A PodScheduled=False condition as last seen or wanted."""

    reason: str
    message: str
    nominated: str = ""


WORKLOADS = (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)


class Workload(NamedTuple):
    """A ReplicaSet, StatefulSet or ReplicationController, by which its pods are spread out."""

    kind: str
    key: Key


class PodImages(NamedTuple):
    """What has to be on a node before a pod can start there."""

    names: tuple[str, ...] = ()  # full ones, of each container and of each volume that is an image
    containers: int = 0


class Pod(msgspec.Struct, frozen=True, eq=False, gc=False):
    """There may be very many: kept small, and made quickly."""

    uid: str
    namespace: str
    name: str
    group: Key | None
    shape: Shape
    status: PodStatus
    node: str
    role: str
    priority: int
    created: float
    index: float
    gated: bool
    ours: bool
    in_stead: bool = False  # ours, as we stand in for Kubernetes' own scheduler
    preemptable: bool = True  # may be made to leave for others
    preempts: bool = True  # may make others leave
    spared_until: float = 0.0  # seconds since the epoch: till then it asks not to be made to leave
    queue_gate: QueueGate = QueueGate.NONE
    priority_class: str = ""
    labels: Mapping[str, str] = NO_LABELS
    claims: tuple[str, ...] = ()
    images: PodImages = PodImages()
    owner: Workload | None = None
    cards: tuple[int, ...] = ()  # of its node, once it has one
    revision: int = 0
    condition: Condition | None = None

    def decides_like(self, other: Pod) -> bool:
        """Whether no decision depends on what differs between the two."""
        return all(getattr(self, name) == getattr(other, name) for name in _DECISIVE)

    @property
    def claim_keys(self) -> tuple[Key, ...]:
        return tuple(Key(self.namespace, name) for name in self.claims)

    @property
    def nominated(self) -> str:
        """The node on which room was made for it."""
        return self.condition.nominated if self.condition is not None else ""

    @property
    def order(self) -> tuple[float, float, str]:
        """Pods of a group in the order of their number, else of their age."""
        return (self.index, self.created, self.uid)

    @property
    def holds_node(self) -> bool:
        return bool(self.node) and self.status not in (PodStatus.SUCCEEDED, PodStatus.FAILED)


_DECISIVE = tuple(name for name in Pod.__struct_fields__ if name not in ("revision", "condition"))


@dataclass(frozen=True, slots=True)
class NodeCards:
    """GPU cards of a node that can be shared: they are all of one size."""

    size: float
    healthy: tuple[int, ...]  # by index


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    uid: str
    labels: Mapping[str, str] = field(hash=False)
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Amounts = field(hash=False)
    cards: NodeCards | None = None


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Which groups of nodes a queue's pods must, would like to, must not and would rather not use."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many of the pods it selects may still be made to leave."""

    key: Key
    selector: Selector | None
    allowed: int
    disrupted: tuple[str, ...]  # names of pods that are counted already

    def covers(self, pod: Pod) -> bool:
        return pod.namespace == self.key.namespace and self.selector is not None and self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota as its status has it."""

    key: Key
    hard: Mapping[str, Decimal] = field(hash=False)
    used: Mapping[str, Decimal] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    uid: str
    weight: int
    priority: int
    state: QueueState
    created: float
    parent: str
    reclaimable: bool
    capability: Amounts = field(hash=False)
    guarantee: Amounts = field(hash=False)
    deserved: Amounts = field(hash=False)
    allocated: Mapping[str, str] | None = field(hash=False, compare=False)
    node_groups: NodeGroups | None = None
    # By group of nodes, what it may hold there at most; None where what is said of it cannot be read.
    node_group_limits: Mapping[str, Amounts] | None = field(default_factory=dict, hash=False)
    hierarchy: tuple[tuple[str, float], ...] = ()  # where drf's tree has it: names and weights from below the root
    revision: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SubgroupPolicy:
    """Which of a group's pods form smaller gangs, told apart by the values of some labels."""

    name: str
    selector: Selector
    keys: tuple[str, ...]
    size: int
    minimum: int  # subgroups that must be whole for the group to start


@dataclass(frozen=True, slots=True)
class PodGroup:
    key: Key
    uid: str
    queue: str
    min_member: int
    min_of_role: tuple[tuple[str, int], ...]
    min_resources: Amounts | None = field(hash=False)
    min_quantities: Mapping[str, Decimal] = field(hash=False)  # the same by the names a quota uses
    task_topology: tuple[str, str, str]  # affinity, anti-affinity and order of roles, as annotated
    waiting_time: float | None  # seconds after which it enters whatever others say
    priority_class: str
    created: float
    phase: PodGroupPhase
    unsupported: tuple[str, ...]
    status: Mapping[str, Any] = field(hash=False, compare=False)
    subgroup_policies: tuple[SubgroupPolicy, ...] = ()
    has_topology: bool = False  # it, or a part of it, says how near its pods are to be to each other
    waiting: tuple[str, str] = field(default=("", ""), compare=False)  # the reason and sentence it is annotated with
    of_job: bool = False  # whose pods are made once it has entered
    tracked_in_vain: bool = field(default=False, compare=False)  # who wrote what is recorded, and of no use to anybody
    revision: int = field(default=0, compare=False)


def show_amount(name: str, amount: float) -> str:
    """A stored amount as the quantity people write: `1500m`, `2Gi`, `4`."""
    if name == MEMORY:
        return format_binary(int(amount))
    if name == PODS:
        return str(int(amount))
    return format_decimal(Decimal(int(amount)) / 1000)
