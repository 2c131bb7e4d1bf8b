"""Pods that ask for nothing go wherever a node has a place for them. Limits of queues do not apply to them."""

from __future__ import annotations

from functools import partial

from tests.scheduler.model.amounts import PODS
from tests.scheduler.model.attempt import Attempt
from tests.scheduler.model.cluster import Group, Node, Pod, Status
from tests.scheduler.model.decisions import Decisions
from tests.scheduler.model.plugins.predicates import SLOTS
from tests.scheduler.model.words import of_nodes


def backfill(decisions: Decisions) -> None:
    tiers = decisions.tiers
    groups = [group for group in decisions.cluster.groups if group.phase != "Pending" and tiers.is_valid(group)]
    for group in groups:
        _take_back_promises(group)
    waiting = [group for group in groups if any(pod.best_effort for pod in group.pending())]
    for queue in tiers.queues_in_order({group.queue for group in waiting}):
        for group in tiers.groups_in_order(group for group in waiting if group.queue is queue):
            _fill(decisions, group)


def _take_back_promises(group: Group) -> None:
    """There may be a place for them now."""
    for pod in group.having({Status.PIPELINED}):
        if pod.best_effort:
            pod.status, pod.node = Status.PENDING, ""


def _fill(decisions: Decisions, group: Group) -> None:
    for pod in decisions.tiers.pods_in_order(pod for pod in group.pending() if pod.best_effort):
        nodes = [node for node in decisions.cluster.nodes if not _refusals(decisions, pod, node)]
        if not nodes:
            group.errors[pod.uid] = of_nodes(decisions.cluster, partial(_refusals, decisions, pod))
            continue
        Attempt().place(pod, nodes[0], Status.ALLOCATED)
        if decisions.tiers.is_ready(group):
            _bind_all(decisions, group)


def _refusals(decisions: Decisions, pod: Pod, node: Node) -> list[str]:
    """A place that others still have, or were promised, is none."""
    found = [text for text, _ in decisions.tiers.refusals(pod, node)]
    room = (decisions.cluster.idle(node), decisions.cluster.later(node))
    if any(free.get(PODS, 0.0) < 1 for free in room) and SLOTS not in found:
        found.append(SLOTS)
    return found


def _bind_all(decisions: Decisions, group: Group) -> None:
    for pod in group.having({Status.ALLOCATED}):
        pod.status = Status.BINDING
        decisions.bindings[pod.name] = pod.node
