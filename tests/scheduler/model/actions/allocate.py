"""Room for whole gangs.

The first group of the first queue gets pods until it is ready, and yields; every further pod is another turn. Queues
and groups are ordered anew before each. What a group got is kept if it is ready then; if it is ready but for room that
others still leave, the promises stand for the rest of the cycle; otherwise it gets nothing.
"""

from __future__ import annotations

from functools import partial

from tests.scheduler.model.amounts import fits, lacking
from tests.scheduler.model.attempt import Attempt
from tests.scheduler.model.cluster import READY, Group, Node, Pod, Status
from tests.scheduler.model.decisions import Decisions
from tests.scheduler.model.plugins.gang import Subgroup, size_of, subgroups_of
from tests.scheduler.model.words import of_nodes, of_role

# Pods still to be placed, in order; those of one subgroup are on one list, and each is tried once in a cycle.
Work = list[tuple[Subgroup, list[Pod]]]


def allocate(decisions: Decisions) -> None:
    tiers = decisions.tiers
    work = {group: found for group in decisions.cluster.groups if (found := _work(decisions, group))}
    queues = {group.queue for group in work}
    while queues:
        queue = tiers.queues_in_order(queues)[0]
        groups = tiers.groups_in_order(group for group in work if group.queue is queue)
        if not groups or tiers.is_overused(queue):
            queues.remove(queue)
            continue
        group, attempt = groups[0], Attempt()
        _take_turn(decisions, group, work[group], attempt)
        if tiers.is_ready(group):
            decisions.keep(attempt)
        elif not attempt.steps or not tiers.is_promised(group):
            attempt.take_back()
        if not work[group] or not tiers.is_ready(group):
            del work[group]


def _work(decisions: Decisions, group: Group) -> Work:
    tiers = decisions.tiers
    if group.phase == "Pending":
        if "enqueue" in decisions.actions:
            return []
        group.phase = "Inqueue"
    if not tiers.is_valid(group):
        return []
    pods = tiers.pods_in_order(pod for pod in group.pending() if not pod.best_effort)
    parts = subgroups_in_order(decisions, group, [pod.subgroup for pod in pods])
    return [(part, [pod for pod in pods if pod.subgroup == part]) for part in parts]


def subgroups_in_order(decisions: Decisions, group: Group, subgroups: list[Subgroup]) -> list[Subgroup]:
    """Those first without which there are too few whole ones."""
    tiers, required = decisions.tiers, []
    ordered = sorted(set(subgroups), key=lambda part: tiers.subgroup_rank(group, part))
    ready = [part for part in subgroups_of(group) if tiers.subgroup_is_ready(group, part)]
    for number, policy in enumerate(group.policies):
        short = (policy.get("minSubGroups") or 0) - sum(1 for part in ready if part and part[0] == number)
        missing = [part for part in ordered if part and part[0] == number and part not in ready]
        required += missing[: max(short, 0)]
    required.sort(key=ordered.index)
    return [*required, *(part for part in ordered if part not in required)]


def _take_turn(decisions: Decisions, group: Group, work: Work, attempt: Attempt) -> None:
    """Subgroup after subgroup until the group is ready; one that does not come to its size gets nothing."""
    if not group.policies:
        _place_pods(decisions, group, work[0], attempt)
        if not work[0][1]:
            work.clear()
        return
    tiers = decisions.tiers
    while work:
        part, trial = work.pop(0), Attempt()
        _place_pods(decisions, group, part, trial)
        subgroup, left = part
        if trial.steps and (tiers.subgroup_is_ready(group, subgroup) or tiers.subgroup_is_promised(group, subgroup)):
            attempt.take_over(trial)
            if left:
                # What it has beyond its size comes after the others.
                work.append(part)
        else:
            trial.take_back()
        if tiers.is_ready(group):
            return


def _place_pods(decisions: Decisions, group: Group, part: tuple[Subgroup, list[Pod]], attempt: Attempt) -> None:
    """Pod after pod until the group, or its subgroup, is ready or hopeless."""
    tiers, (subgroup, pods) = decisions.tiers, part
    while pods:
        pod = pods.pop(0)
        if not tiers.has_room(pod):
            continue
        if _role_has_failed(pod):
            group.errors[pod.uid] = of_role(pod)
            continue
        node = _best_node(decisions, pod)
        if node is None:
            group.errors[pod.uid] = of_nodes(decisions.cluster, partial(_refusals, decisions, pod))
            if _goes_on(group, subgroup):
                continue
            return
        at_once = fits(pod.request, decisions.cluster.idle(node))
        attempt.place(pod, node, Status.ALLOCATED if at_once else Status.PIPELINED)
        if tiers.subgroup_is_ready(group, subgroup) if group.policies else tiers.is_ready(group):
            return


def _role_has_failed(pod: Pod) -> bool:
    """Pods of one role are alike: where one found no node the others are not tried."""
    assert pod.group is not None
    alike = [other for other in pod.group.pods if other.role == pod.role and other.subgroup == pod.subgroup]
    return bool(pod.role) and any(other.uid in pod.group.errors for other in alike)


def _best_node(decisions: Decisions, pod: Pod) -> Node | None:
    """Where room was made for it, if it can go there; otherwise the best that has room now, or will have."""
    cluster, tiers = decisions.cluster, decisions.tiers
    possible = [node for node in cluster.nodes if not _refusals(decisions, pod, node)]
    nominated = cluster.node(pod.nominated)
    if nominated in possible:
        return nominated
    now = [node for node in possible if fits(pod.request, cluster.idle(node))]
    # The first of those that are as good.
    return max(now or possible, key=lambda node: tiers.score(pod, node), default=None)


def _refusals(decisions: Decisions, pod: Pod, node: Node) -> list[str]:
    missing = lacking(pod.request, decisions.cluster.later(node))
    if missing is not None:
        return [f"Insufficient {missing}"]
    return [text for text, _ in decisions.tiers.refusals(pod, node)]


def _goes_on(group: Group, subgroup: Subgroup) -> bool:
    """Whether the group may still come to something though one of its pods found no node."""
    if group.minimum >= len(group.pods):
        return False
    if group.policies:
        return size_of(group, subgroup) < sum(1 for pod in group.pods if pod.subgroup == subgroup)
    failed = {pod.role for pod in group.pods if pod.uid in group.errors}
    if group.minimum < sum(group.of_role.values()):
        hopeful = [pod for pod in group.having({Status.PENDING}) if pod.role not in failed]
        return len(group.having(READY)) + len(hopeful) >= group.minimum
    return all(_has_role(group, role) for role in failed)


def _has_role(group: Group, role: str) -> bool:
    pods = [pod for pod in group.pods if pod.role == role]
    held = [pod for pod in pods if pod.status in READY or (pod.status is Status.PENDING and pod.best_effort)]
    return len(held) >= group.of_role.get(role, 0)
