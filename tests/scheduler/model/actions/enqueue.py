"""Who is let in: one group of one queue at a time, the first of the queue that comes first at that moment.

One that is not let in keeps nobody back.
"""

from __future__ import annotations

from tests.scheduler.model.decisions import Decisions


def enqueue(decisions: Decisions) -> None:
    tiers = decisions.tiers
    waiting = [group for group in decisions.cluster.groups if group.phase == "Pending"]
    while waiting:
        queue = tiers.queues_in_order({group.queue for group in waiting})[0]
        group = tiers.groups_in_order(group for group in waiting if group.queue is queue)[0]
        waiting.remove(group)
        # One that does not say what it needs is not voted on.
        if group.needs is None or tiers.may_enter(group):
            group.phase = "Inqueue"
            tiers.entered(group)
