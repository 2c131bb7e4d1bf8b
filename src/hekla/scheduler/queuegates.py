"""Pods that stand behind a scheduling gate until their queue has room for them.

So what waits for nodes, and makes an autoscaler add some, is no more than queues allow. A pod that was let in counts as
expected in its queue until it has a node.
"""

from __future__ import annotations

from hekla.scheduler.fit import Unfit
from hekla.scheduler.rows import QueueGate
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.tiers import Tiers


def queue_room(
    session: Session, tiers: Tiers, state: GroupState, shape: int, wanted: int, gate: QueueGate
) -> tuple[int, Unfit | None]:
    """`Tiers.queue_room`, for pods that may be expected there already: they do not stand in their own way."""
    if gate is not QueueGate.OPENED:
        return tiers.queue_room(state, shape, wanted)
    session.reserve(state, shape, -wanted)
    try:
        return tiers.queue_room(state, shape, wanted)
    finally:
        session.reserve(state, shape, wanted)
