"""A cluster with a job that waits in it, as it is and as it might be: each change gives another scene. Pure.

Objects are never changed in place; a scene shares with the one it was made from what is alike in both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from hekla.api.core import PodPhase
from hekla.api.kinds import JOB, NODE, POD, POD_GROUP, RESOURCE_QUOTA, Kind, Obj
from hekla.api.meta import (
    Key,
    annotations_of,
    controller_of,
    controller_of_kind,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    uid_of,
)
from hekla.api.pod_resources import Amount, Amounts, add, as_text, pod_requests, quota_usage
from hekla.api.quantity import parse
from hekla.api.scheduling import DEFAULT_QUEUE, GROUP_NAME, ROOT_QUEUE, PodGroupPhase

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_OVER = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
# Whose pods are on a node as long as the node is there.
_KEPT_BY = frozenset({"DaemonSet", "Node"})
_SYSTEM = "kube-system"

Sums = dict[str, Decimal]


class Other(NamedTuple):
    """Another group of the cluster, and what its pods hold of the nodes."""

    group: Obj
    pods: tuple[Obj, ...]
    held: Sums


@dataclass(frozen=True)
class Scene:
    """`rest` is everything in the cluster but the waiting group and its pods."""

    rest: tuple[Obj, ...]
    group: Obj
    pods: tuple[Obj, ...]
    is_empty: bool = False  # but for it

    @classmethod
    def of(cls, cluster: Iterable[Obj], group: Obj, pods: Iterable[Obj]) -> Scene:
        mine, key = tuple(pods), key_of(group)
        uids = {uid_of(pod) for pod in mine}
        own = (obj for obj in cluster if not _is(obj, POD_GROUP, key) and not (is_a(obj, POD) and uid_of(obj) in uids))
        return cls(tuple(own), group, mine)

    @property
    def objects(self) -> list[Obj]:
        return [*self.rest, self.group, *self.pods]

    @property
    def minimum(self) -> int:
        return int(self.group["spec"].get("minMember") or 0)

    @property
    def queue(self) -> str:
        return str(self.group["spec"].get("queue") or DEFAULT_QUEUE)

    def all(self, kind: Kind) -> Iterator[Obj]:
        return (obj for obj in self.rest if is_a(obj, kind))

    @cached_property
    def others(self) -> list[Other]:
        """The groups beside it that hold something, or have been let in to."""
        pods: dict[Key, list[Obj]] = {}
        for pod in self.all(POD):
            name = annotations_of(pod).get(GROUP_NAME)
            if name and not _is_over(pod):
                pods.setdefault(Key(namespace_of(pod), name), []).append(pod)
        return [
            Other(group, tuple(mine), held_by(mine))
            for group in self.all(POD_GROUP)
            if (mine := pods.get(key_of(group), [])) or _phase(group) == PodGroupPhase.INQUEUE
        ]

    def held(self) -> list[Obj]:
        """The pods of others that are on nodes."""
        return [pod for pod in self.all(POD) if pod["spec"].get("nodeName") and not _is_over(pod)]

    def has_scoped_quotas(self) -> bool:
        """Whether a quota of its namespace counts in a way that is not followed here."""
        mine = (quota for quota in self.all(RESOURCE_QUOTA) if namespace_of(quota) == namespace_of(self.group))
        return any(map(_is_scoped, mine))

    @cached_property
    def free_by_node(self) -> list[Sums]:
        """What each node has left. Only a hint: it knows nothing of selectors, taints and the like."""
        free = {name_of(node): _allocatable(node) for node in self.all(NODE)}
        for pod in [*self.held(), *filter(is_placed, self.pods)]:
            left = free.get(str(pod["spec"].get("nodeName")), {})
            for name, amount in _requests(pod).items():
                if name in left:
                    left[name] -= amount.value
        return list(free.values())

    def wanted(self) -> Sums:
        """What the smallest number of pods that is of use asks for, at most."""
        return {name: amount.value for name, amount in _largest(map(_requests, self.pods), self.minimum).items()}

    # What follows gives another scene.

    def without(self, gone: Collection[Obj]) -> Scene:
        """As if these were not there any more; what quotas counted for them is free."""
        left = {id(obj) for obj in gone}
        ended = [obj for obj in gone if is_a(obj, POD) and not _is_over(obj)]
        rest = (obj for obj in self.rest if id(obj) not in left)
        return replace(self, rest=tuple(_relieved(obj, ended) if is_a(obj, RESOURCE_QUOTA) else obj for obj in rest))

    def without_pods_of_others(self) -> Scene:
        """As if nothing else ran; what waits goes on waiting."""
        return self.without([pod for pod in self.held() if not _stays(pod)])

    def alone(self) -> Scene:
        """As if nothing else ran or waited."""
        pods = [pod for pod in self.all(POD) if not _stays(pod)]
        return replace(self.without([*pods, *self.all(POD_GROUP)]), is_empty=True)

    def in_queue(self, queue: str) -> Scene:
        return self._anew({"queue": queue}, self.pods)

    def with_minimum(self, members: int) -> Scene:
        """Minima of tasks that are more together than this are advice, for the scheduler and so here."""
        return self._anew({"minMember": members}, self.pods)

    def with_pods(self, change: Callable[[Obj], Obj]) -> Scene:
        """With other specs of its pods; what of them was placed stays as it is."""
        return self._anew({}, [pod if is_placed(pod) else {**pod, "spec": change(pod["spec"])} for pod in self.pods])

    def with_one(self, kind: Kind, name: str, change: Callable[[Obj], Obj]) -> Scene:
        """With another object in place of one of the cluster's own, which have no namespace."""
        return replace(self, rest=tuple(change(obj) if _is(obj, kind, Key("", name)) else obj for obj in self.rest))

    def _anew(self, changed: Mapping[str, Any], pods: Iterable[Obj]) -> Scene:
        """As if the job were submitted so: what follows from it in its PodGroup follows, and it has to be let in."""
        mine = tuple(pods)
        spec = {**self.group["spec"], **changed}
        if spec.get("minResources"):
            spec["minResources"] = least(mine, int(spec.get("minMember") or 0))
        status = {**(self.group.get("status") or {}), "phase": PodGroupPhase.PENDING.value}
        return replace(self, group={**self.group, "spec": spec, "status": status}, pods=mine)


def is_a(obj: Obj, kind: Kind) -> bool:
    return bool(obj.get("kind") == kind.kind and obj.get("apiVersion") == kind.api_version)


def is_placed(pod: Obj) -> bool:
    """Whether it has a node, or had one and did its work there."""
    lost = (pod.get("status") or {}).get("phase") == PodPhase.FAILED or is_deleting(pod)
    return bool(pod["spec"].get("nodeName")) and not lost


def least(pods: Iterable[Obj], members: int) -> dict[str, str]:
    """`minResources` for so many of these pods: where they differ, for the largest."""
    return as_text(_largest((quota_usage(pod["spec"]) for pod in pods), members))


def held_by(pods: Iterable[Obj]) -> Sums:
    total: Amounts = {}
    for pod in pods:
        if pod["spec"].get("nodeName"):
            add(total, _requests(pod))
    return {name: amount.value for name, amount in total.items()}


def job_of(group: Obj, namespace: str) -> str:
    """How people call it from a namespace: `job NAME`, `job ns/NAME`, or by its PodGroup where it has no Job."""
    owner = controller_of_kind(group, JOB)
    name = str(owner["name"]) if owner else name_of(group)
    where = "" if namespace_of(group) == namespace else f"{namespace_of(group)}/"
    return f"{'job' if owner else 'PodGroup'} {where}{name}"


def parents(queues: Iterable[Obj]) -> dict[str, str]:
    """For each queue the one above it."""
    return {name_of(queue): str((queue.get("spec") or {}).get("parent") or ROOT_QUEUE) for queue in queues}


def way_up(queue: str, above: Mapping[str, str]) -> list[str]:
    """The queue and those above it, without the root."""
    way: list[str] = []
    while queue in above and queue not in way and queue != ROOT_QUEUE:
        way.append(queue)
        queue = above[queue]
    return way


def capability_of(queue: Obj) -> dict[str, str]:
    """What it may hold at most; a limit of zero on cpu or memory is none."""
    given = (queue.get("spec") or {}).get("capability") or {}
    return {name: str(text) for name, text in given.items() if parse(text) or name not in ("cpu", "memory")}


def with_capability(queue: Obj, capability: Mapping[str, str]) -> Obj:
    return {**queue, "spec": {**(queue.get("spec") or {}), "capability": dict(capability)}}


def opened(queue: Obj) -> Obj:
    return {**queue, "status": {**(queue.get("status") or {}), "state": "Open"}}


def uncordoned(node: Obj) -> Obj:
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or () if taint.get("key") != UNSCHEDULABLE_TAINT]
    return {**node, "spec": {**spec, "unschedulable": False, "taints": taints}}


def _is(obj: Obj, kind: Kind, key: Key) -> bool:
    return is_a(obj, kind) and key_of(obj) == key


def _is_over(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in _OVER


def _phase(obj: Obj) -> str:
    return str((obj.get("status") or {}).get("phase") or "")


def _stays(pod: Obj) -> bool:
    """Whether it is part of the cluster rather than of what runs on it."""
    return namespace_of(pod) == _SYSTEM or (controller_of(pod) or {}).get("kind") in _KEPT_BY


def _allocatable(node: Obj) -> Sums:
    return {name: parse(text) for name, text in ((node.get("status") or {}).get("allocatable") or {}).items()}


def _requests(pod: Obj) -> Amounts:
    return pod_requests(pod["spec"])


def _largest(each: Iterable[Amounts], count: int) -> Amounts:
    """Of each resource what the `count` that have most of it have together."""
    by_name: dict[str, list[Amount]] = {}
    for amounts in each:
        for name, amount in amounts.items():
            by_name.setdefault(name, []).append(amount)
    total: Amounts = {}
    for name, found in by_name.items():
        for amount in sorted(found, key=lambda one: one.value, reverse=True)[:count]:
            add(total, {name: amount})
    return total


def _relieved(quota: Obj, ended: Iterable[Obj]) -> Obj:
    """Without what these pods use of it. Of a quota with scopes that is not easily said: it stays as it is."""
    if _is_scoped(quota):
        return quota
    status = quota.get("status") or {}
    freed: Amounts = {}
    for pod in ended:
        if namespace_of(pod) == namespace_of(quota):
            add(freed, quota_usage(pod["spec"]))
    used = {
        name: str(max(Amount.of(text) - freed[name], Amount(Decimal(0)), key=lambda one: one.value))
        for name, text in (status.get("used") or {}).items()
        if name in freed
    }
    return {**quota, "status": {**status, "used": {**(status.get("used") or {}), **used}}}


def _is_scoped(quota: Obj) -> bool:
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))
