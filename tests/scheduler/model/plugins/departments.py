"""Dominant resource fairness in a tree: departments and their parts, with weights, and groups as the leaves.

The tree is built anew for every question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.scheduler.model.amounts import TOLERANCE, Amounts, dominant_share, minus, named, plus, total
from tests.scheduler.model.cluster import Cluster, Group, Pod, Queue
from tests.scheduler.model.plugins.drf import Drf


class Departments(Drf):
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        super().__init__(cluster, entry)
        self._cluster = cluster

    def compare_queues(self, one: Queue, other: Queue) -> int:
        return self._compare(one, other, {group: group.held for group in self._cluster.groups})

    def reclaimable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """Those whose queue would still come after the contender's, with the contender in and them alone gone."""
        assert contender.group is not None
        held = {group: group.held for group in self._cluster.groups}
        held[contender.group] = plus(held[contender.group], contender.request)
        allowed = []
        for pod in candidates:
            assert pod.group is not None
            without = {**held, pod.group: minus(held[pod.group], pod.request)}
            if self._compare(contender.group.queue, pod.group.queue, without) < 0:
                allowed.append(pod)
        return allowed

    def _compare(self, one: Queue, other: Queue, held: dict[Group, Amounts]) -> int:
        """Level by level from below the root: who still wants something before who does not, then the smaller share
        for its weight."""
        tree = _Tree(self._total, held)
        for mine, theirs in zip(tree.way_to(one), tree.way_to(other)):
            ranks = [(part.is_saturated, part.share / part.weight) for part in (mine, theirs)]
            if ranks[0] != ranks[1]:
                return -1 if ranks[0] < ranks[1] else 1
        return 0


@dataclass(eq=False)
class _Part:
    """A department, or a group as the last of its line."""

    weight: float = 1.0
    parts: dict[str, _Part] = field(default_factory=dict)
    groups: list[_Part] = field(default_factory=list)
    held: Amounts = field(default_factory=dict)
    share: float = 0.0
    is_saturated: bool = True


class _Tree:
    def __init__(self, whole: Amounts, held: dict[Group, Amounts]) -> None:
        self._whole = whole
        in_all = total(held.values())
        self._scarce = {name for name in whole if in_all.get(name, 0.0) >= whole[name]}
        self._root = _Part()
        for group, amounts in held.items():
            leaf = _Part(held=amounts, share=dominant_share(amounts, whole))
            leaf.is_saturated = self._wants_no_more(group, amounts)
            self._department(group.queue).groups.append(leaf)
        self._sum_up(self._root)

    def way_to(self, queue: Queue) -> list[_Part]:
        """The departments from below the root to the queue's own."""
        found, at = [], self._root
        for name, weight in queue.departments:
            at = at.parts.setdefault(name, _Part(weight))
            found.append(at)
        return found

    def _department(self, queue: Queue) -> _Part:
        return [self._root, *self.way_to(queue)][-1]

    def _wants_no_more(self, group: Group, held: Amounts) -> bool:
        """Of something that it has it has all it asks for, or nobody can have more."""
        asked = total(pod.request for pod in group.pods)
        return any(
            held.get(name, 0.0) >= TOLERANCE and (held[name] >= asked[name] or name in self._scarce)
            for name in named(asked)
        )

    def _sum_up(self, part: _Part) -> None:
        """All parts that want more count as if they had as little as the one that has least, of those that have
        anything: so one that has much does not keep the others back."""
        for child in part.parts.values():
            self._sum_up(child)
        members = [*part.parts.values(), *part.groups]
        counted = [child for child in members if child.share > 0]
        least = min([1.0, *(child.share for child in counted if not child.is_saturated)])
        part.held = {}
        for child in counted:
            part.held = plus(part.held, child.held, 1.0 if child.is_saturated else least / child.share)
        part.share = dominant_share(part.held, self._whole)
        part.is_saturated = all(child.is_saturated for child in members)
