"""The frozen picture one cycle decides on.

Nodes are lines of tables, in name order. A Group carries its pods as columns in pod order; it is built once and
shared by snapshots until something in the group changes, so a snapshot costs a copy of the node tables and little
else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.resources import Columns, Flags, Floats, Ints
from hekla.scheduler.cardtable import Cards
from hekla.scheduler.company import PodTerm
from hekla.scheduler.rows import Budget, HostPort, Node, Pod, PodGroup, PodStatus, Queue, Quota, Shape
from hekla.scheduler.siblings import NO_SIBLINGS, Label, Siblings
from hekla.scheduler.storage import Storage

Statuses = NDArray[np.int8]

ALLOCATED_STATUSES = (PodStatus.ALLOCATED, PodStatus.BINDING, PodStatus.BOUND, PodStatus.RUNNING)


def among(statuses: Sequence[PodStatus]) -> Flags:
    """A table that says of a column of statuses which are among these: for a few pods far quicker than `np.isin`."""
    found: Flags = np.isin(np.arange(len(PodStatus)), statuses)
    return found


def are(statuses: Statuses, wanted: PodStatus) -> Flags:
    """Which of a column are this one. NumPy takes five times as long where the number is an enumeration's."""
    found: Flags = statuses == int(wanted)
    return found


IS_ALLOCATED = among(ALLOCATED_STATUSES)
_LINES, _ALLOCATED, _RESERVED = 5, 0, 4  # of holdings


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    rows: tuple[Node, ...]
    allocatable: Floats
    used: Floats
    releasing: Floats
    assumed: Floats  # CPU and memory in use where containers without requests count as kube-scheduler counts them
    ports: Mapping[int, tuple[HostPort, ...]]
    cordoned: tuple[int, ...]  # lines of unschedulable nodes
    tainted: tuple[int, ...]  # lines of nodes with any taint
    cards: Cards | None = None

    def __len__(self) -> int:
        return len(self.rows)


class Group(msgspec.Struct, frozen=True, eq=False):
    row: PodGroup
    priority: int
    pods: tuple[Pod, ...]
    status: Statuses
    shape: Ints  # line of each pod in the snapshot-wide request table
    role: Ints  # position of each pod's role in `roles`
    roles: tuple[str, ...]
    pod_priority: Ints
    gated: Flags
    at_queue_gate: Flags  # those of them that their queue alone holds back
    let_in: Flags  # through that gate
    has_queue_gates: bool
    best_effort: Flags
    has_best_effort: bool
    has_claims: bool
    has_nominated: bool  # room was made on some node for a pod of it
    counts: tuple[int, ...]  # pods by status
    allocated: Floats
    pending: Floats
    minimum: Floats  # the declared minResources, zeros where none are declared
    claim: Floats  # the minimum without what gated pods ask for: they need nothing yet
    outstanding: Floats  # the part of the claim of a group that has entered which it does not hold yet
    elastic: Floats  # what it holds beyond its minimum
    reserved: Floats  # what it takes of what may enter
    holdings: (
        Floats  # a line each: allocated, pending, outstanding, elastic, reserved; added up for many groups at once
    )
    memo: dict[object, object]  # for what follows from the group alone and is asked for cycle after cycle

    @property
    def name(self) -> str:
        return str(self.row.key)


def is_on_its_way(row: PodGroup, counts: Sequence[int]) -> bool:
    """Whether a group was let in and placed, though it still says Pending: that takes a moment to be written."""
    placed = counts[PodStatus.BINDING] + counts[PodStatus.BOUND]
    if row.phase is not PodGroupPhase.PENDING or not placed:
        return False
    return sum(counts[status] for status in ALLOCATED_STATUSES) + counts[PodStatus.SUCCEEDED] >= row.min_member


class Holdings(msgspec.Struct, frozen=True, eq=False):
    """What groups hold and ask for, added up. Amounts are whole numbers: taking a group out again is exact."""

    groups: int
    holdings: Floats  # the lines are those of `Group.holdings`

    @classmethod
    def none(cls, columns: int) -> Holdings:
        return cls(0, np.zeros((_LINES, columns)))

    @property
    def allocated(self) -> Floats:
        line: Floats = self.holdings[_ALLOCATED]
        return line

    @property
    def reserved(self) -> Floats:
        line: Floats = self.holdings[_RESERVED]
        return line

    def plus(self, group: Group) -> Holdings:
        """With one more group."""
        return Holdings(self.groups + 1, self.holdings + group.holdings)

    def minus(self, group: Group) -> Holdings:
        """With one less."""
        return Holdings(self.groups - 1, self.holdings - group.holdings)


class ImagePlace(NamedTuple):
    """The nodes that have an image, and its size in bytes (on average, where they disagree)."""

    lines: Ints
    size: float


Filed = Mapping[str, Mapping[Label, tuple[Group, ...]]]  # by namespace and label


class Acquainted(NamedTuple):
    """The resting groups by labels of their pods, for the keys that any company asks for, and by what pods want."""

    by_label: Mapping[Label, tuple[Group, ...]] = MappingProxyType({})
    by_term: Mapping[PodTerm, tuple[Group, ...]] = MappingProxyType({})


NOBODY_KNOWN = Acquainted()


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    cycle_id: str
    columns: Columns
    nodes: Nodes
    queues: tuple[Queue, ...]  # by name
    groups: tuple[Group, ...]  # those to be looked at, by age, then name
    now: float  # seconds since the epoch
    budgets: tuple[Budget, ...]
    quotas: tuple[Quota, ...]
    storage: Storage
    strangers: tuple[Pod, ...]  # pods on nodes that belong to none of the groups
    shapes: Sequence[Shape]
    requests: Floats  # one line for each shape
    resting: tuple[Group, ...] = ()  # the others, in any order: a cycle has nothing to decide about them
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # their labels
    siblings: Siblings = NO_SIBLINGS
    filed: Filed = field(
        default_factory=dict
    )  # the resting groups whose pods have a label that siblings are filed under
    acquainted: Acquainted = NOBODY_KNOWN
    images: Mapping[str, ImagePlace] = field(default_factory=dict)  # by name: where those of waiting pods are
    held: Mapping[str, Holdings] = field(default_factory=dict)  # by queue: what the resting groups hold
