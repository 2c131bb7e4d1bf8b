"""A cycle: stage after stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.scheduler.model.actions.allocate import allocate
from tests.scheduler.model.actions.backfill import backfill
from tests.scheduler.model.actions.enqueue import enqueue
from tests.scheduler.model.actions.preempt import preempt
from tests.scheduler.model.actions.reclaim import reclaim
from tests.scheduler.model.decisions import Decisions
from tests.scheduler.model.reading import Objects, read_cluster
from tests.scheduler.model.tiers import Entry, Tiers

_ACTIONS: dict[str, Callable[[Decisions], None]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
}


def decide(objects: Objects, actions: Sequence[str], tiers: Sequence[Sequence[Entry]]) -> Decisions:
    """Plugins look at the cluster once, before anything is decided: what queues deserve stays as it is then."""
    cluster = read_cluster(objects)
    decisions = Decisions(cluster, Tiers(cluster, tiers), actions)
    for action in actions:
        _ACTIONS[action](decisions)
    return decisions
