"""Queues as a tree: each below the one it names, or below the root."""

from __future__ import annotations

import math

from tests.scheduler.model.amounts import BASIC, Amounts, beyond, plus, total
from tests.scheduler.model.cluster import Cluster, Queue, Status
from tests.scheduler.model.plugins.accounts import lowered


class Tree:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        waiting = {group.queue.name for group in cluster.groups if group.having({Status.PENDING})}
        self._ages = {name: (name not in waiting, queue.created, name) for name, queue in cluster.queues.items()}

    def way_up(self, queue: Queue) -> list[Queue]:
        """The queue and its ancestors, as far up as there are any."""
        found: list[Queue] = []
        at: Queue | None = queue
        while at is not None and at not in found:
            found.append(at)
            at = self._cluster.queues.get(at.parent)
        return found

    def way_down(self, queue: Queue) -> list[Queue]:
        """From below the root to the queue."""
        return [each for each in reversed(self.way_up(queue)) if each.name != "root"]

    def below(self, queue: Queue) -> list[Queue]:
        """The queue and all that have it above them."""
        return [each for each in self._cluster.queues.values() if queue in self.way_up(each)]

    def children(self, queue: Queue) -> list[Queue]:
        return [each for each in self._cluster.queues.values() if each.parent == queue.name]

    def is_leaf(self, queue: Queue) -> bool:
        return not self.children(queue)

    def takes_groups(self, queue: Queue) -> bool:
        return self.is_leaf(queue) and self.way_up(queue)[-1].name == "root"

    def common_ancestors(self, one: Queue, other: Queue) -> int:
        return len(set(self.way_up(one)) & set(self.way_up(other)))

    def turn(self, queue: Queue) -> tuple[str, str]:
        """Age and name of the oldest at or below it in which pods waited when the cycle began, or of any."""
        _, created, name = min(self._ages[each.name] for each in self.below(queue))
        return created, name

    def ceilings(self) -> dict[str, Amounts]:
        """What each queue may hold. The root what it says, and anything that the cluster has any of where it says
        nothing: the size of the cluster is no limit. The others their own limit, or their parent's, but not what is
        guaranteed to their siblings."""
        found: dict[str, Amounts] = {}
        limits: dict[str, Amounts] = {}
        endless = dict.fromkeys([*BASIC, *self._cluster.total], math.inf)
        for queue in sorted(self._cluster.queues.values(), key=lambda queue: len(self.way_up(queue))):
            parent = self._cluster.queues.get(queue.parent)
            if parent is None or parent.name not in found:
                limits[queue.name] = found[queue.name] = lowered(endless, queue.limit)
                continue
            limits[queue.name] = {**limits[parent.name], **queue.limit}
            promised = total(child.guarantee for child in self.children(parent))
            most = plus(beyond(found[parent.name], promised), queue.guarantee)
            found[queue.name] = lowered(most, limits[queue.name])
        return found
