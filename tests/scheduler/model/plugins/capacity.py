"""Queues own what they deserve, may use more while it is free, and get it back when they need it.

In a tree of queues what one holds counts for all above it as well, and each of them has its own limit.
"""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.amounts import (
    BASIC,
    PODS,
    TOLERANCE,
    Amounts,
    exceeds,
    fits,
    is_nothing,
    minus,
    most,
    named,
    plus,
    share,
)
from tests.scheduler.model.cluster import Cluster, Group, Pod, Queue
from tests.scheduler.model.plugins.accounts import Entries, flat_ceilings, held_by, lowered
from tests.scheduler.model.plugins.tree import Tree


class Capacity:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        self._cluster = cluster
        self._tree = Tree(cluster) if entry.get("enableHierarchy") else None
        self._level = (entry.get("arguments") or {}).get("ancestorReclaimLevel", 0) if self._tree else 0
        self._entries = Entries(cluster)
        self._ceilings = self._tree.ceilings() if self._tree else flat_ceilings(cluster)
        self._deserved = {name: self._due(queue) for name, queue in cluster.queues.items()}

    # Order

    def compare_queues(self, one: Queue, other: Queue) -> int:
        if one.priority != other.priority:
            return other.priority - one.priority
        if self._tree is None:
            return _compare(self._rank(one), self._rank(other))
        if self._tree.is_leaf(one) != self._tree.is_leaf(other):
            return -1 if self._tree.is_leaf(one) else 1
        # Where their ways down from the root part their ancestors there are compared, or they themselves.
        for mine, theirs in zip(self._tree.way_down(one), self._tree.way_down(other)):
            if mine is not theirs:
                # ours: equals take turns by the age of the oldest below them with pods that wait.
                ranks = ((self._rank(each), self._tree.turn(each)) for each in (mine, theirs))
                return _compare(*ranks)
        return 0

    def victim_queue_rank(self, queue: Queue, contender: Queue) -> float:
        """In a tree relatives give before strangers do: those first with whom most ancestors are shared."""
        return 0.0 if self._tree is None else -float(self._tree.common_ancestors(queue, contender))

    # Limits

    def has_room(self, pod: Pod) -> bool:
        """What a queue deserves is no limit."""
        assert pod.group is not None
        queue = pod.group.queue
        return self._is_usable(queue) and not any(
            exceeds(plus(self._held(each), pod.request), self._ceilings[each.name], pod.request)
            for each in self._up_from(queue)
        )

    def may_enter(self, group: Group) -> bool:
        return self._is_usable(group.queue) and all(
            self._entries.have_room(group, self._groups(each), self._below(each), self._ceilings[each.name])
            for each in self._up_from(group.queue)
        )

    def entered(self, group: Group) -> None:
        self._entries.add(group)

    # Reclaiming

    def may_reclaim(self, pod: Pod) -> bool:
        """Where its queue stays within its limit, and within what it deserves of one thing at least that the pod asks
        for; some levels up an ancestor's share does as well."""
        assert pod.group is not None
        own, *above = self._up_from(pod.group.queue)
        if not self._is_usable(own):
            return False
        if exceeds(plus(self._held(own), pod.request), self._ceilings[own.name], pod.request):
            return False
        entitled = [own, *(each for each in above[: self._level] if not _is_root(each))]
        return any(self._stays_within(each, pod) for each in entitled)

    def reclaimable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """One after the other, each counted as gone from the queues that were looked at for it."""
        gone: dict[str, Amounts] = {}
        allowed = []
        for pod in candidates:
            if not set(named(pod.request)) & set(named(contender.request)) - {PODS}:
                continue
            charged = self._losers(contender, pod, gone)
            for queue in charged:
                gone[queue.name] = plus(gone.get(queue.name, {}), pod.request)
            if charged:
                allowed.append(pod)
        return allowed

    def _losers(self, contender: Pod, pod: Pod, gone: dict[str, Amounts]) -> list[Queue]:
        """The queues that a pod's leaving is charged to; none where it stays."""
        assert pod.group is not None
        assert contender.group is not None
        own, *above = self._up_from(pod.group.queue)
        rival, *rivals = self._up_from(contender.group.queue)
        rest = minus(minus(self._held(own), gone.get(own.name, {})), pod.request)
        if not fits(own.guarantee, rest) or not self._can_spare(own, pod, gone):
            return []
        near = [each for each in rivals[: self._level] if each in above[: self._level] and not _is_root(each)]
        if near and not self._owns_any(own, pod) and not self._owns_any(rival, contender):
            # Relatives do not take from each other what the taker's queue has no share of itself.
            return []
        charged = [own]
        for level, queue in enumerate(above[: self._level]):
            if _is_root(queue) or queue in rivals[level : level + 1]:
                continue
            if not self._can_spare(queue, pod, gone):
                return []
            charged.append(queue)
        return charged

    def _can_spare(self, queue: Queue, pod: Pod, gone: dict[str, Amounts]) -> bool:
        """Who deserves nothing of what a pod holds, or has more of it than it deserves.

        To have more than a share of nothing counts for devices, where nothing is what the queue says; not for CPU and
        memory.
        """
        if not self._owns_any(queue, pod):
            return True
        held, deserved = minus(self._held(queue), gone.get(queue.name, {})), self._deserved[queue.name]
        return any(
            held.get(name, 0.0) > deserved[name] and (deserved[name] >= TOLERANCE or name not in BASIC)
            for name in named(pod.request)
            if name in deserved and name != PODS
        )

    def _owns_any(self, queue: Queue, pod: Pod) -> bool:
        return any(self._deserved[queue.name].get(name, 0.0) >= TOLERANCE for name in named(pod.request))

    def _stays_within(self, queue: Queue, pod: Pod) -> bool:
        held, deserved = plus(self._held(queue), pod.request), self._deserved[queue.name]
        return any(held[name] - deserved.get(name, 0.0) < TOLERANCE for name in named(pod.request) if name != PODS)

    # Books

    def _due(self, queue: Queue) -> Amounts:
        """What it says, and at least what is guaranteed to it; outside a tree at most what it may hold. A share of
        devices that the cluster has none of stands."""
        if self._tree is None:
            return most(lowered(queue.deserved, self._ceilings[queue.name]), queue.guarantee)
        return most(queue.deserved, queue.guarantee)

    def _is_usable(self, queue: Queue) -> bool:
        """Open and, in a tree, at the end of a way that leads to the root.

        ours: a queue that is not is a trouble of its own, not of all queues.
        """
        return queue.is_open and (self._tree is None or self._tree.takes_groups(queue))

    def _rank(self, queue: Queue) -> tuple[float, bool]:
        """Its share of what it deserves, 1 where it deserves nothing; of equals who deserves something first."""
        deserved, held = self._deserved[queue.name], self._held(queue)
        if is_nothing(deserved):
            return (1.0, True)
        return (max(share(held.get(name, 0.0), due) for name, due in deserved.items() if due >= TOLERANCE), False)

    def _held(self, queue: Queue) -> Amounts:
        return held_by(self._groups(queue))

    def _groups(self, queue: Queue) -> list[Group]:
        return self._cluster.groups_in([each.name for each in self._below(queue)])

    def _below(self, queue: Queue) -> list[Queue]:
        return [queue] if self._tree is None else self._tree.below(queue)

    def _up_from(self, queue: Queue) -> list[Queue]:
        return [queue] if self._tree is None else self._tree.way_up(queue)


def _is_root(queue: Queue) -> bool:
    return queue.name == "root"


def _compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)
