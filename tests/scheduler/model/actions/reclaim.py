"""Room for queues below their share, at the cost of queues above theirs."""

from __future__ import annotations

from functools import partial

from tests.scheduler.model.actions.displacing import clear, nodes_to_try, residents, serve, starving
from tests.scheduler.model.amounts import fits
from tests.scheduler.model.attempt import Attempt
from tests.scheduler.model.cluster import Node, Pod, Status
from tests.scheduler.model.decisions import Decisions


def reclaim(decisions: Decisions) -> None:
    for queue, groups in starving(decisions):
        if not decisions.tiers.is_overused(queue):
            for group in groups:
                serve(decisions, group, partial(_make_room, decisions))


def _make_room(decisions: Decisions, attempt: Attempt, pod: Pod) -> bool:
    cluster, tiers = decisions.cluster, decisions.tiers
    if not pod.preempts or not tiers.may_reclaim(pod):
        return False
    for node in nodes_to_try(decisions, pod):
        candidates = [victim for victim in residents(cluster, node, {Status.RUNNING}) if _concerns(victim, pod)]
        # A node where nobody can be made to leave is not used, though it may have room.
        if not candidates:
            continue
        victims = tiers.reclaimable(pod, tiers.victims_in_order(candidates, pod))
        if clear(cluster, attempt, pod, node, victims, partial(_has_room, decisions, pod, node), "reclaim"):
            return True
    return False


def _has_room(decisions: Decisions, pod: Pod, node: Node) -> bool:
    """Whether filters agree with what leaves is not asked again."""
    return fits(pod.request, decisions.cluster.later(node))


def _concerns(victim: Pod, pod: Pod) -> bool:
    assert victim.group is not None
    assert pod.group is not None
    return victim.group.queue is not pod.group.queue and victim.group.queue.reclaimable
