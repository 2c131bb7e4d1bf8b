"""Extension points: one-method contracts. How the answers of several plugins become one is in `tiers.py`.

A scheduler plugin is one class whose bases name the points it takes part in. It is built afresh for every cycle
from its arguments and the session. Points about nodes answer for all nodes at once. Each point names the switch of
the configuration file that turns it off for a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from hekla.scheduler.arrays.greedy import Following
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.books import Book
from hekla.scheduler.figure import Figure
from hekla.scheduler.fit import Refusal, Unfit
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Queue
from hekla.scheduler.session import GroupState, PodClass, Session
from hekla.scheduler.snapshot import Group

PairScore = Callable[["Ints | None", "Ints | int"], Floats]


@dataclass(frozen=True, slots=True)
class Argument:
    """A declared argument: its type (bool, int, float, str, list, dict), its default, what raises for a wrong value."""

    type: type
    default: Any
    check: Callable[[Any], object] | None = None


HIERARCHY = "enableHierarchy"


class SchedulerPlugin:
    """Base of all scheduler plugins. `arguments` holds every declared argument, defaults filled in, and `OPTIONS`."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {}
    # An argument whose name is this plus anything is accepted as well, as a float.
    ARGUMENT_PREFIX: ClassVar[str] = ""
    # Switches that are off unless turned on, and that this plugin knows what to do with.
    OPTIONS: ClassVar[tuple[str, ...]] = ()
    # What is refused or preferred follows from a class's constraints, kin, queue, claims and tag alone. One answer then
    # serves all classes that agree in those for a whole cycle; else the plugin is asked anew for every single pod.
    BY_CONSTRAINTS: ClassVar[bool] = False

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        self.arguments = arguments
        self.session = session

    @classmethod
    def objections(cls, arguments: Mapping[str, Any]) -> Sequence[str]:
        """What is wrong with arguments each of which is right by itself."""
        return ()


class GroupOrder:
    switch: ClassVar[str] = "enableJobOrder"

    def group_key(self, state: GroupState) -> float:
        """Smaller comes first."""
        raise NotImplementedError


class QueueOrder:
    switch: ClassVar[str] = "enableQueueOrder"

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        """Smaller comes first."""
        raise NotImplementedError


class VictimQueueOrder:
    switch: ClassVar[str] = ""

    def victim_queue_key(self, queue: Queue, contender: Queue) -> float:
        """From which queue to take first for a contender's: smaller comes first."""
        raise NotImplementedError


class PodOrder:
    switch: ClassVar[str] = "enableTaskOrder"

    def pod_keys(self, group: Group) -> Ints:
        """One number for each pod of the group; smaller comes first."""
        raise NotImplementedError


class GroupValid:
    switch: ClassVar[str] = ""

    def group_valid(self, state: GroupState) -> Unfit | None:
        """None when the group may be scheduled at all."""
        raise NotImplementedError


class GroupReady:
    switch: ClassVar[str] = "enableJobReady"

    def group_ready(self, state: GroupState) -> bool:
        """Whether what the group holds now may be bound."""
        raise NotImplementedError

    def pods_missing(self, state: GroupState, role: int) -> int:
        """How many pods of the role must be placed before the group can turn ready (less would surely not do)."""
        raise NotImplementedError


class Vote(IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class GroupPipelined:
    switch: ClassVar[str] = "enableJobPipelined"

    def group_pipelined(self, state: GroupState) -> Vote:
        """Whether the group would be ready once the room it was promised is free."""
        raise NotImplementedError


class GroupStarving:
    switch: ClassVar[str] = "enableJobStarving"

    def group_starving(self, state: GroupState) -> bool:
        """Whether the group lacks so much that others may have to leave for it."""
        raise NotImplementedError


class SubgroupOrder:
    switch: ClassVar[str] = "enabledSubJobOrder"

    def subgroup_key(self, state: GroupState, subgroup: int) -> float:
        """Smaller comes first."""
        raise NotImplementedError


class SubgroupReady:
    switch: ClassVar[str] = "enabledSubJobReady"

    def subgroup_ready(self, state: GroupState, subgroup: int) -> bool:
        """Whether what the subgroup holds now may be bound as soon as the group is ready."""
        raise NotImplementedError

    def subgroup_missing(self, state: GroupState, subgroup: int) -> int:
        """How many of its pods must be placed before it can turn ready."""
        raise NotImplementedError


class SubgroupPipelined:
    switch: ClassVar[str] = "enabledSubJobPipelined"

    def subgroup_pipelined(self, state: GroupState, subgroup: int) -> Vote:
        """Whether the subgroup would be ready once the room it was promised is free."""
        raise NotImplementedError


class GroupEnqueueable:
    switch: ClassVar[str] = "enableJobEnqueued"

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        """Whether the group's minimum may enter; a rejection says why."""
        raise NotImplementedError

    def group_enqueued(self, state: GroupState) -> None:
        """The group has entered; called for every plugin of the point after all votes."""
        raise NotImplementedError


class QueueOverused:
    switch: ClassVar[str] = "enabledOverused"

    def queue_overused(self, queue: Queue) -> bool:
        raise NotImplementedError


class QueueRoom:
    switch: ClassVar[str] = "enabledAllocatable"

    def queue_room(self, state: GroupState, shape: int, wanted: int) -> tuple[int, Unfit | None]:
        """How many of `wanted` pods of the shape the group's queue may still take, and what stops the rest."""
        raise NotImplementedError


class QueueMayReclaim:
    switch: ClassVar[str] = "enablePreemptive"

    def may_reclaim(self, state: GroupState, shape: int) -> bool:
        """Whether the group's queue may take a pod's worth of room from other queues."""
        raise NotImplementedError


class Preemptable:
    switch: ClassVar[str] = "enablePreemptable"

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        """Those of the candidates (the least important first) that may leave for the contender; None to abstain."""
        raise NotImplementedError


class Reclaimable:
    switch: ClassVar[str] = "enableReclaimable"

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        """As `Preemptable`, for a contender of another queue."""
        raise NotImplementedError


class NodeFilter:
    switch: ClassVar[str] = "enablePredicate"

    def refusals(self, of: PodClass) -> Sequence[Refusal]:
        """What speaks against which nodes, room for resources aside.

        A node is counted under each refusal up to the first that is final, and under those of one plugin only.
        """
        raise NotImplementedError

    def most_per_node(self, of: PodClass) -> int | None:
        """How many pods of one class a node may take at most, None for no limit."""
        return None

    def not_yet(self, of: PodClass) -> Flags | None:
        """Nodes, of those not refused, that will do only once the pods that are leaving have left; None for none."""
        return None


class NodeScore:
    switch: ClassVar[str] = "enableNodeOrder"

    def pair_score(self, shape: int) -> PairScore | None:
        """score(lines, placed): for each node line, the score of one more pod of the shape after `placed` more of it.

        Lines None means all nodes. The function reads the session's tables as they are when it is called.
        """
        return None

    def standing_score(self, of: PodClass) -> Floats | None:
        """The score of every node for reasons that pods and other nodes have no part in; None where all are alike."""
        return None

    def has_preference(self, of: PodClass) -> bool:
        """Whether some nodes are liked better than others for reasons that have nothing to do with room."""
        return False

    def preference(self, of: PodClass, candidates: Ints) -> Floats:
        """The score of each candidate node for such reasons, relative to the candidates."""
        raise NotImplementedError

    def following(self, of: PodClass, candidates: Ints) -> Following | None:
        """The preference of a class whose pods mind each other, brought up to date with each of them placed.

        None where only asking again will do.
        """
        return None


class QueueBooks:
    switch: ClassVar[str] = ""

    def queue_books(self, queue: Queue) -> Sequence[Book]:
        """What the queue holds and may hold, then those above it; asked only when somebody wants to know why."""
        raise NotImplementedError


class Measured:
    switch: ClassVar[str] = ""

    def figures(self) -> Iterable[Figure]:
        """What there is to measure, as of the end of the cycle; asked only when somebody looks."""
        raise NotImplementedError


class Verdict:
    switch: ClassVar[str] = ""

    def verdict(self, state: GroupState) -> bool | None:
        """At the end of the cycle: True ready, False unschedulable, None nothing to say."""
        raise NotImplementedError
