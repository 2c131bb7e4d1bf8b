"""What queues hold and may hold: what `proportion` and `capacity` have in common."""

from __future__ import annotations

from collections.abc import Iterable

from tests.scheduler.model.amounts import Amounts, beyond, exceeds, minus, nothing, plus, total
from tests.scheduler.model.cluster import HOLDING, Cluster, Group, Queue, Status


def held_by(groups: Iterable[Group]) -> Amounts:
    return total(group.held for group in groups)


def asked_by(groups: Iterable[Group]) -> Amounts:
    """What they have and what they wait for."""
    return total(pod.request for group in groups for pod in group.having(HOLDING | {Status.PENDING}))


def flat_ceilings(cluster: Cluster) -> dict[str, Amounts]:
    """For each queue what it may hold at most: everything but what is guaranteed to others, and its own limit."""
    guaranteed = total(queue.guarantee for queue in cluster.queues.values())
    free = beyond(cluster.total, guaranteed)
    return {name: lowered(plus(free, queue.guarantee), queue.limit) for name, queue in cluster.queues.items()}


def lowered(amounts: Amounts, limit: Amounts) -> Amounts:
    """What the limit does not name it does not limit."""
    return {name: min(amount, limit.get(name, amount)) for name, amount in amounts.items()}


class Entries:
    """What is kept for groups that were let in, by queue: to be had by nobody else, but not held yet."""

    def __init__(self, cluster: Cluster) -> None:
        self._kept: dict[str, Amounts] = {name: nothing() for name in cluster.queues}
        self._elastic: dict[str, Amounts] = {name: nothing() for name in cluster.queues}
        for group in cluster.groups:
            queue = group.queue.name
            if group.is_inside:
                self._kept[queue] = plus(self._kept[queue], beyond(group.claim, group.held))
            # What one holds beyond its minimum it can do without.
            self._elastic[queue] = plus(self._elastic[queue], beyond(group.held, group.needs or {}))

    def add(self, group: Group) -> None:
        self._kept[group.queue.name] = plus(self._kept[group.queue.name], group.claim)

    def have_room(self, group: Group, groups: Iterable[Group], queues: Iterable[Queue], ceiling: Amounts) -> bool:
        """Whether one more group may enter these queues, which count together and have these groups."""
        assert group.needs is not None
        names = [queue.name for queue in queues]
        taken = plus(held_by(groups), total(self._kept[name] for name in names))
        taken = minus(taken, total(self._elastic[name] for name in names))
        return not exceeds(plus(taken, group.needs), ceiling, group.needs)
