"""The cluster is shared between queues by weight; what one does not ask for goes to the others."""

from __future__ import annotations

from typing import Any

from tests.scheduler.model.amounts import (
    TOLERANCE,
    Amounts,
    beyond,
    exceeds,
    fits,
    is_nothing,
    minus,
    most,
    nothing,
    plus,
    share,
    total,
)
from tests.scheduler.model.cluster import Cluster, Group, Pod, Queue
from tests.scheduler.model.plugins.accounts import Entries, asked_by, flat_ceilings, held_by, lowered

_STEPS = 10_000
_SAME = 1e-3


class Proportion:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        self._cluster = cluster
        self._ceilings = flat_ceilings(cluster)
        self._entries = Entries(cluster)
        self._deserved = self._share_out()

    def compare_queues(self, one: Queue, other: Queue) -> int:
        mine, theirs = ((-queue.priority, self._share(queue)) for queue in (one, other))
        return (mine > theirs) - (mine < theirs)

    def is_overused(self, queue: Queue) -> bool:
        """With all it deserves of everything: then it is not asked what else it wants."""
        return fits(self._deserved[queue.name], self._held(queue))

    def has_room(self, pod: Pod) -> bool:
        """Within what its queue deserves of what the pod asks for."""
        assert pod.group is not None
        queue = pod.group.queue
        held = plus(self._held(queue), pod.request)
        return queue.is_open and not exceeds(held, self._deserved[queue.name], pod.request)

    may_reclaim = has_room

    def reclaimable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """From each queue as long as it has more of anything than it deserves."""
        left: dict[str, Amounts] = {}
        allowed = []
        for pod in candidates:
            assert pod.group is not None
            queue = pod.group.queue
            held = left.get(queue.name, self._held(queue))
            if not fits(held, self._deserved[queue.name]):
                allowed.append(pod)
                left[queue.name] = minus(held, pod.request)
        return allowed

    def may_enter(self, group: Group) -> bool:
        queue, groups = group.queue, self._cluster.groups_in([group.queue.name])
        return queue.is_open and self._entries.have_room(group, groups, [queue], self._ceilings[queue.name])

    def entered(self, group: Group) -> None:
        self._entries.add(group)

    def _held(self, queue: Queue) -> Amounts:
        return held_by(self._cluster.groups_in([queue.name]))

    def _share(self, queue: Queue) -> float:
        """Of what it deserves, what it holds, by the resource of which that is most."""
        held, deserved = self._held(queue), self._deserved[queue.name]
        shares = [share(held.get(name, 0.0), due) for name, due in deserved.items() if due >= TOLERANCE]
        return max(shares, default=0.0)

    def _share_out(self) -> dict[str, Amounts]:
        """Round by round what is left goes to those who want more, by weight; never more than they ask for or may hold,
        never less than is guaranteed. Queues without groups have no part in it."""
        queues = list({group.queue.name: group.queue for group in self._cluster.groups}.values())
        asked = {queue.name: asked_by(self._cluster.groups_in([queue.name])) for queue in queues}
        deserved, left, hungry = {queue.name: nothing() for queue in queues}, self._cluster.total, list(queues)
        for _ in range(_STEPS):
            weights, before = sum(queue.weight for queue in hungry), dict(deserved)
            if not weights:
                break
            for queue in hungry:
                due = plus(deserved[queue.name], left, queue.weight / weights)
                due = lowered(due, self._ceilings[queue.name])
                due = {name: min(amount, asked[queue.name].get(name, 0.0)) for name, amount in due.items()}
                deserved[queue.name] = most(due, queue.guarantee)
            given = {queue.name: minus(deserved[queue.name], before[queue.name]) for queue in hungry}
            hungry = [
                queue
                for queue in hungry
                if not fits(asked[queue.name], deserved[queue.name]) and not _is_small(given[queue.name])
            ]
            after = beyond(left, total(given.values()))
            unchanged = _is_small(minus(after, left))
            left = after
            if is_nothing(left) or unchanged:
                break
        return {name: {each: _whole(due) for each, due in amounts.items()} for name, amounts in deserved.items()}


def _is_small(change: Amounts) -> bool:
    return all(abs(amount) < _SAME for amount in change.values())


def _whole(amount: float) -> float:
    """ours: what is nearly whole is. Otherwise one who asks for exactly that would be refused for ever."""
    return float(round(amount)) if abs(amount - round(amount)) < TOLERANCE else amount
