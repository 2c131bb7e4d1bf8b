"""Tasks of a Job that belong together, or apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hekla.scheduler.arrays.fits import covers
from hekla.scheduler.arrays.resources import CPU, MEMORY, Floats, Ints
from hekla.scheduler.extension import Argument, NodeScore, PodOrder, SchedulerPlugin
from hekla.scheduler.session import GroupState, PodClass, Session
from hekla.scheduler.snapshot import Group

_WEIGHT = "task-topology.weight"
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Topology:
    """Which roles are to be near each other and which apart (a pair of one role with itself included)."""

    near: frozenset[tuple[str, str]]
    apart: frozenset[tuple[str, str]]
    order: tuple[str, ...]

    def concerns(self, role: str) -> bool:
        return role in self.order or any(role in pair for pair in self.near | self.apart)

    def rank(self, role: str) -> tuple[int, int]:
        """Roles in the order given, then those with the most at stake."""
        stakes = (
            (4, (role, role) in self.apart),
            (3, any(role in pair and pair[0] != pair[1] for pair in self.near)),
            (2, (role, role) in self.near),
            (1, any(role in pair and pair[0] != pair[1] for pair in self.apart)),
        )
        position = self.order.index(role) if role in self.order else len(self.order)
        return (position, -max((points for points, applies in stakes if applies), default=0))

    def affinity(self, role: str, company: Mapping[str, int], *, only_apart: bool = False) -> int:
        """How well a role goes with pods of others: those it should be near, less those it should be apart from."""
        near = 0 if only_apart else sum(count for other, count in company.items() if (role, other) in self.near)
        return near - sum(count for other, count in company.items() if (role, other) in self.apart)


@dataclass(slots=True, eq=False)
class _Bucket:
    """Pods of a group that should share a node."""

    number: int
    waiting: dict[int, int] = field(default_factory=dict)  # shape by position
    roles: Counter[str] = field(default_factory=Counter)
    request: float = 0.0
    on_line: Counter[int] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        return len(self.waiting) + sum(self.on_line.values())


@dataclass(slots=True, eq=False)
class _Layout:
    """A group's buckets, and who of it is where."""

    topology: Topology
    bucket_of: dict[int, _Bucket]
    largest: int
    roles_on: dict[int, Counter[str]]
    ranks: Ints
    roles: list[str]  # of each pod


class TaskTopology(SchedulerPlugin, PodOrder, NodeScore):
    """Pods are put into buckets by the affinity of their roles; nodes that can take more of a bucket come first."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {_WEIGHT: Argument(int, 1)}

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._layouts: dict[int, _Layout] = {}
        self._tagged: list[tuple[_Layout, int]] = []
        for state in session.groups:
            topology = read_topology(state.group)
            if topology is not None:
                layout = self._layouts[id(state.group)] = self._lay_out(state, topology)
                self._tag(state, layout)
        if self._layouts:
            session.movers.append(self._moved)

    def pod_keys(self, group: Group) -> Ints:
        layout = self._layouts.get(id(group))
        return np.zeros(len(group.pods), dtype=np.int64) if layout is None else layout.ranks

    def has_preference(self, of: PodClass) -> bool:
        return of.tag >= 0

    def preference(self, of: PodClass, candidates: Ints) -> Floats:
        layout, position = self._tagged[of.tag]
        bucket, weight = layout.bucket_of[position], self.arguments[_WEIGHT]
        role = layout.roles[position]
        free = self.session.idle[candidates] + self.session.releasing[candidates]
        score = self._room_for_bucket(bucket, position, free).astype(float)
        for at, line in enumerate(candidates.tolist()):
            there = layout.topology.affinity(role, layout.roles_on.get(line, {}), only_apart=True)
            score[at] += bucket.on_line[line] + min(0, there)
        score[~covers(free, self.session.request(of.shape))] = 0.0
        result: Floats = score * (weight * 100 / layout.largest)
        return result

    def _room_for_bucket(self, bucket: _Bucket, position: int, free: Floats) -> Ints:
        """How many of the bucket's waiting pods, the one in question among them, each node could take together."""
        others = [shape for at, shape in bucket.waiting.items() if at != position]
        own = bucket.waiting.get(position)
        needed = self.session.request(own) if own is not None else np.zeros(free.shape[1])
        sums = np.cumsum([needed, *(self.session.request(shape) for shape in others)], axis=0)
        fitting: Ints = np.sum([covers(free, total) for total in sums], axis=0)
        return fitting

    def _lay_out(self, state: GroupState, topology: Topology) -> _Layout:
        group = state.group
        buckets: list[_Bucket] = []
        by_line: dict[int, _Bucket] = {}
        bucket_of: dict[int, _Bucket] = {}
        roles_on: dict[int, Counter[str]] = {}
        for position in _in_order(group, topology, self.session.lines):
            role, line = group.pods[position].role, self.session.lines.get(group.pods[position].node)
            if line is not None:
                bucket = by_line.get(line) or _new(buckets)
                by_line[line] = bucket
                bucket.on_line[line] += 1
                roles_on.setdefault(line, Counter())[role] += 1
            else:
                bucket = _best(buckets, topology, role) or _new(buckets)
                bucket.waiting[position] = int(group.shape[position])
                bucket.request += self._size(int(group.shape[position]))
            bucket.roles[role] += 1
            bucket_of[position] = bucket
        largest = max((bucket.size for bucket in buckets), default=1)
        ranks = _ranks(group, topology, bucket_of)
        return _Layout(topology, bucket_of, largest, roles_on, ranks, [pod.role for pod in group.pods])

    def _tag(self, state: GroupState, layout: _Layout) -> None:
        for position in layout.bucket_of:
            self.session.tags[state.group.pods[position].uid] = len(self._tagged)
            self._tagged.append((layout, position))

    def _size(self, shape: int) -> float:
        """One figure for a request: thousandths of CPU, mebibytes, devices."""
        columns, request = self.session.snapshot.columns, self.session.request(shape)
        rest = sum(float(request[at]) for at, name in enumerate(columns.names) if name not in (CPU, MEMORY, "pods"))
        return float(request[0]) + float(request[1]) / _MEBIBYTE + rest

    def _moved(self, state: GroupState, positions: Sequence[int], lines: Sequence[int], sign: int) -> None:
        layout = self._layouts.get(id(state.group))
        if layout is None:
            return
        for position, line in zip(positions, lines):
            bucket, role = layout.bucket_of.get(position), state.group.pods[position].role
            if bucket is None:
                continue
            if sign > 0:
                bucket.waiting.pop(position, None)
            elif not state.group.pods[position].node:
                bucket.waiting[position] = int(state.group.shape[position])
            bucket.on_line[line] += sign
            layout.roles_on.setdefault(line, Counter())[role] += sign


def read_topology(group: Group) -> Topology | None:
    """What a group says of its roles; None where it says nothing, or names a role it has not or one twice in a set."""
    near, apart, order = ([_names(part) for part in text.split(";")] for text in group.row.task_topology)
    sets = [names for names in (*near, *apart, *order) if names]
    known = all(name in group.roles for names in sets for name in names)
    if not sets or not known or any(len(names) != len(set(names)) for names in sets):
        return None
    return Topology(_pairs(near), _pairs(apart), tuple(order[0]))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(sets: Sequence[Sequence[str]]) -> frozenset[tuple[str, str]]:
    """Everybody in a set with everybody else in it; a set of one is about that role alone."""
    return frozenset(
        (one, other) for names in sets for one in names for other in names if one != other or len(names) == 1
    )


def _in_order(group: Group, topology: Topology, lines: Mapping[str, int]) -> list[int]:
    """Pods that the topology is about: those that have a node, then by role, then by name."""
    concerned = [position for position, pod in enumerate(group.pods) if pod.role and topology.concerns(pod.role)]
    return sorted(
        concerned,
        key=lambda at: (
            group.pods[at].node not in lines,
            topology.rank(group.pods[at].role),
            group.pods[at].name,
        ),
    )


def _best(buckets: Sequence[_Bucket], topology: Topology, role: str) -> _Bucket | None:
    """The bucket a role goes best with, the smaller request among equals; none where it should be apart from all."""
    ranked = [(-topology.affinity(role, bucket.roles), bucket.request, bucket.number, bucket) for bucket in buckets]
    best = min(ranked, key=lambda entry: entry[:3], default=None)
    return None if best is None or best[0] > 0 else best[3]


def _new(buckets: list[_Bucket]) -> _Bucket:
    buckets.append(_Bucket(len(buckets)))
    return buckets[-1]


def _ranks(group: Group, topology: Topology, bucket_of: Mapping[int, _Bucket]) -> Ints:
    """Pods in buckets first; the largest bucket before the others, in it by role."""
    keys = []
    for position, pod in enumerate(group.pods):
        bucket = bucket_of.get(position)
        keys.append((1, 0, 0, (0, 0)) if bucket is None else (0, -bucket.size, bucket.number, topology.rank(pod.role)))
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    return np.array([places[key] for key in keys], dtype=np.int64)
