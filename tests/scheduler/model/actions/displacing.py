"""Room for pods of groups that starve, at the cost of others: what preempting and reclaiming have in common."""

from __future__ import annotations

from collections.abc import Callable

from tests.scheduler.model.actions.allocate import subgroups_in_order
from tests.scheduler.model.amounts import fits, plus, total
from tests.scheduler.model.attempt import Attempt
from tests.scheduler.model.cluster import Cluster, Group, Node, Pod, Queue, Status
from tests.scheduler.model.decisions import Decisions

# Tries to make room for a pod; False, with nothing changed, where there is none to be made.
MakeRoom = Callable[[Attempt, Pod], bool]


def starving(decisions: Decisions) -> list[tuple[Queue, list[Group]]]:
    """By queue; queues and groups in the order in which they come when the stage begins."""
    tiers = decisions.tiers
    groups = [
        group
        for group in decisions.cluster.groups
        if group.phase != "Pending" and tiers.is_valid(group) and tiers.is_starving(group)
    ]
    queues = tiers.queues_in_order({group.queue for group in groups})
    return [(queue, tiers.groups_in_order(group for group in groups if group.queue is queue)) for queue in queues]


def serve(decisions: Decisions, group: Group, make_room: MakeRoom) -> None:
    """Pod after pod until the group starves no more. All of it is kept, or nothing if it lacks its minimum even so.

    ours: of a group in subgroups nobody leaves for a part of one.
    """
    tiers, attempt = decisions.tiers, Attempt()
    pods = tiers.pods_in_order(group.pending())
    for part in subgroups_in_order(decisions, group, [pod.subgroup for pod in pods]):
        if not tiers.is_starving(group):
            break
        trial, divided = Attempt(), bool(group.policies)
        for pod in (pod for pod in pods if pod.subgroup == part):
            whole = not divided or tiers.subgroup_is_promised(group, part)
            if not whole or tiers.is_starving(group):
                make_room(trial, pod)
        if not divided or tiers.subgroup_is_promised(group, part):
            attempt.take_over(trial)
        else:
            trial.take_back()
    if tiers.is_promised(group):
        decisions.keep(attempt)
    else:
        attempt.take_back()


def clear(
    cluster: Cluster,
    attempt: Attempt,
    pod: Pod,
    node: Node,
    victims: list[Pod],
    is_enough: Callable[[], bool],
    why: str,
) -> bool:
    """Have victims leave a node, one after the other and no more than needed, and promise their room to the pod.

    Nobody leaves where all of them together would not be enough, nor where there is room anyway.
    """
    if not fits(pod.request, plus(cluster.later(node), total(victim.request for victim in victims))):
        return False
    trial, left = Attempt(), list(victims)
    while left and not is_enough():
        trial.evict(left.pop(0), why)
    if not is_enough():
        trial.take_back()
        return False
    # Who asked for nothing gives nothing up.
    cleared = any(not step.pod.best_effort for step in trial.steps)
    trial.place(pod, node, Status.PIPELINED, cleared=cleared)
    attempt.take_over(trial)
    return True


def nodes_to_try(decisions: Decisions, pod: Pod) -> list[Node]:
    """Those that nobody's leaving would open to the pod are passed over."""
    tiers = decisions.tiers
    return [node for node in decisions.cluster.nodes if not any(final for _, final in tiers.refusals(pod, node))]


def residents(cluster: Cluster, node: Node, statuses: set[Status]) -> list[Pod]:
    """Pods of groups that may be made to leave. Those another scheduler has placed may not."""
    here = [pod for pod in cluster.on(node) if pod.group is not None and pod.status in statuses]
    return [pod for pod in here if pod.preemptable and pod.ours]
