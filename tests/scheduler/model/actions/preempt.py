"""Room for important groups, at the cost of less important ones in the same queue; then within each group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.scheduler.model.actions.displacing import clear, nodes_to_try, residents, serve, starving
from tests.scheduler.model.amounts import fits
from tests.scheduler.model.attempt import Attempt
from tests.scheduler.model.cluster import Node, Pod, Status
from tests.scheduler.model.decisions import Decisions

_HERE = {Status.BOUND, Status.RUNNING}


def preempt(decisions: Decisions) -> None:
    for _, groups in starving(decisions):
        for group in groups:
            serve(decisions, group, partial(_make_room, decisions, _of_another_group))
        for group in groups:
            for pod in decisions.tiers.pods_in_order(group.pending()):
                attempt = Attempt()
                if not _make_room(decisions, _of_the_same_group, attempt, pod):
                    break
                decisions.keep(attempt)


def _of_another_group(victim: Pod, pod: Pod) -> bool:
    assert victim.group is not None
    assert pod.group is not None
    return victim.group is not pod.group and victim.group.queue is pod.group.queue


def _of_the_same_group(victim: Pod, pod: Pod) -> bool:
    return victim.group is pod.group


def _make_room(decisions: Decisions, concerns: Callable[[Pod, Pod], bool], attempt: Attempt, pod: Pod) -> bool:
    cluster, tiers = decisions.cluster, decisions.tiers
    if not _may_preempt(decisions, pod):
        return False
    # The best node first; of those that are as good, in their order.
    for node in sorted(nodes_to_try(decisions, pod), key=lambda node: -tiers.score(pod, node)):
        candidates = [
            victim
            for victim in residents(cluster, node, _HERE)
            # Who asks for nothing displaces nobody who does not.
            if concerns(victim, pod) and (victim.best_effort or not pod.best_effort)
        ]
        victims = tiers.preemptable(pod, tiers.victims_in_order(candidates, pod))
        if clear(cluster, attempt, pod, node, victims, partial(_could_go, decisions, pod, node), "preempt"):
            return True
    return False


def _could_go(decisions: Decisions, pod: Pod, node: Node) -> bool:
    room = fits(pod.request, decisions.cluster.later(node))
    return room and decisions.tiers.has_room(pod) and not decisions.tiers.refusals(pod, node)


def _may_preempt(decisions: Decisions, pod: Pod) -> bool:
    """Not if it must not; nor while room that was made for it before is there, or on its way.

    ours: a node that is gone does not count as room, nor one where only its queue stops the pod.
    """
    node = decisions.cluster.node(pod.nominated)
    if not pod.preempts or node is None:
        return pod.preempts
    refusals = decisions.tiers.refusals(pod, node)
    if any(final for _, final in refusals):
        return True
    if not refusals and fits(pod.request, decisions.cluster.later(node)):
        return not decisions.tiers.has_room(pod)
    return not any(
        other.deleted and other.status is Status.RELEASING and other.priority < pod.priority
        for other in decisions.cluster.on(node)
        if other.group is not None
    )
