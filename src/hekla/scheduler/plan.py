"""What a cycle decided, with reasons. Nothing outside has changed yet; `binder.py` carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.blame import PluginFailure
from hekla.scheduler.figure import Figure
from hekla.scheduler.rows import Condition, Pod
from hekla.scheduler.session import Tallies
from hekla.scheduler.snapshot import Group, Nodes
from hekla.scheduler.storage import ClaimChoice


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Pods of one group to be bound together: all of them, or the group is not what it was promised."""

    group: Group
    positions: Ints
    lines: Ints
    nodes: Nodes
    # By pod uid: claims that are to get a volume first. They are bound before the pods are.
    choices: Mapping[str, Sequence[ClaimChoice]] = field(default_factory=dict)
    cards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by pod uid, of those that get any

    def __len__(self) -> int:
        return len(self.positions)

    def pairs(self) -> Iterator[tuple[Pod, str]]:
        for position, line in zip(self.positions.tolist(), self.lines.tolist()):
            pod = self.group.pods[position]
            if pod.uid in self.cards:
                pod = replace(pod, cards=self.cards[pod.uid])
            yield pod, self.nodes.rows[line].name


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """A pod that is to have a node once those have left it who are leaving."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True, eq=False)
class Eviction:
    """A pod that has to leave its node for the contender; the reason is the name of the action that decided it."""

    group: Group
    pod: Pod
    reason: str
    contender: Group | None = None


@dataclass(frozen=True, slots=True)
class GroupCondition:
    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """An Event to be told about a group."""

    type: str
    reason: str
    message: str
    passing: bool = False  # true of this moment only: told now or never


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a group waits, as lists show it: one of `api.reasons`, and a sentence; both empty where it does not wait."""

    reason: str = ""
    message: str = ""


class GroupOutcome(msgspec.Struct, frozen=True, eq=False):
    """What the cycle makes of one group: the status it should have, what to tell, and why."""

    group: Group
    phase: PodGroupPhase
    running: int
    succeeded: int
    failed: int
    condition: GroupCondition | None
    announcements: tuple[Announcement, ...]
    pod_conditions: tuple[tuple[Pod, Condition], ...]
    missing: int  # pods it lacks, where it is unschedulable
    settling: bool  # pods are on their way to nodes: counts and texts are about to change by themselves
    filling: bool  # pods are missing that are probably being made just now
    at_rest: bool = False  # the next cycle would say the same: nobody has to look before the group changes
    waiting: Waiting | None = None  # None: leave what was said before
    decision: Mapping[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    name: str
    allocated: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    cycle_id: str
    placements: tuple[Placement, ...]
    groups: tuple[GroupOutcome, ...]
    queues: tuple[QueueOutcome, ...]
    resting: tuple[Group, ...] = ()  # groups that were not looked at
    evictions: tuple[Eviction, ...] = ()
    admitted: tuple[Pod, ...] = ()  # pods to be let through the gate of their queue
    tallies: Tallies = field(default_factory=Tallies)
    figures: Callable[[], Iterable[Figure]] = tuple  # of plugins, as of the end of the cycle
    failures: tuple[PluginFailure, ...] = ()  # of plugins; what they mean for groups is in the outcomes
    volume_seconds: float = 600.0  # how long placements wait for the volumes of their claims
    due: float | None = None  # when to look again though nothing has changed, in seconds since the epoch
    promises: tuple[Promise, ...] = ()
    # Of a group: what its queue holds and may hold, and who is ahead of it. Worked out when somebody asks.
    standing: Callable[[Group], Mapping[str, Any]] = field(default=lambda _: {})

    def bindings(self) -> dict[str, str]:
        """Node by pod uid, for whoever wants the whole answer at once."""
        return {pod.uid: node for placement in self.placements for pod, node in placement.pairs()}

    def decisions(self) -> list[Mapping[str, Any]]:
        """The JSON-able record of why each waiting group waits."""
        return [{**outcome.decision, **self.standing(outcome.group)} for outcome in self.groups if outcome.decision]
