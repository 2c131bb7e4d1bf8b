"""The PodGroup of a Job: what the scheduler is told about the gang."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from hekla.api.batch import ANSWERED, PARTITION_ID, TASK_SPEC, WAITING_SINCE
from hekla.api.kinds import JOB, POD_GROUP, Obj
from hekla.api.meta import annotations_of, controller_of, labels_of, owner_reference
from hekla.api.pod_resources import Amounts, add, as_text, quota_usage
from hekla.api.scheduling import PodGroupPhase, is_good, last_word
from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.pods import group_name

# What follows the Job when it changes; queue, labels and the rest are as they were at creation.
_FOLLOWED = ("priorityClassName", "minMember", "minResources", "minTaskMember", "subGroupPolicy")


def build_pod_group(job: Job, priorities: Mapping[str, int]) -> Obj:
    """`priorities` are the values of the PriorityClasses by name."""
    metadata: Obj = {
        "name": group_name(job),
        "namespace": job.key.namespace,
        "ownerReferences": [owner_reference(job.obj, JOB)],
    }
    if labels_of(job.obj):
        metadata["labels"] = dict(labels_of(job.obj))
    if annotations_of(job.obj):
        metadata["annotations"] = dict(annotations_of(job.obj))
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": metadata,
        "spec": _spec(job, priorities),
    }


def spec_patch(wanted: Obj, existing: Obj) -> Obj | None:
    """A merge patch that brings the followed fields up to date; None when they are."""
    old, new = existing.get("spec") or {}, wanted["spec"]
    changed = {field: new.get(field) for field in _FOLLOWED if (old.get(field) or None) != (new.get(field) or None)}
    for field in ("minResources", "minTaskMember"):
        if field in changed and changed[field] is not None:
            stale = {key: None for key in old.get(field) or {} if key not in changed[field]}
            changed[field] = {**changed[field], **stale}
    return {"spec": changed} if changed else None


def is_disowned(job: Job, group: Obj) -> bool:
    """Whether it is the job's, with its uid in the name, though somebody took the reference to the job off."""
    return group["metadata"]["name"] == group_name(job) and controller_of(group) is None


def outdated_notes(group: Obj) -> dict[str, None]:
    """What is noted about a group's having lost pods, to be taken off one that has found others."""
    if (group.get("status") or {}).get("phase") == PodGroupPhase.UNKNOWN:
        return {}
    return {name: None for name in (WAITING_SINCE, ANSWERED) if name in annotations_of(group)}


class _Part(msgspec.Struct, array_like=True, frozen=True):
    """A task's part in a gang: how many pods of what template, and how many of them it cannot do without."""

    priority: int
    template: Obj | None
    replicas: int
    needed: int


class _Gang(msgspec.Struct, array_like=True, frozen=True):
    members: int
    parts: list[_Part]


def min_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """The quota usage of the `minAvailable` pods that would be started first."""
    parts = [
        _Part(
            priorities.get(_priority_class(task), 0),
            task.obj.get("template"),
            task.replicas,
            task.effective_min_available,
        )
        for task in job.tasks
    ]
    return dict(_usage(msgspec.json.encode(_Gang(job.min_available, parts))))


@lru_cache(maxsize=256)
def _usage(encoded: bytes) -> dict[str, str]:
    """Who runs thousands of small jobs writes the same into most of them."""
    total: Amounts = {}
    for part, count in _first_pods(msgspec.json.decode(encoded, type=_Gang)):
        if count:
            add(total, quota_usage((part.template or {}).get("spec") or {}), count)
    return as_text(total)


def _first_pods(gang: _Gang) -> list[tuple[_Part, int]]:
    parts = sorted(gang.parts, key=lambda part: -part.priority)
    if gang.members < sum(part.needed for part in parts):
        return _take(parts, [part.replicas for part in parts], gang.members)
    needed = _take(parts, [part.needed for part in parts], gang.members)
    left = gang.members - sum(count for _, count in needed)
    return needed + _take(parts, [part.replicas - part.needed for part in parts], left)


def _take(parts: list[_Part], available: list[int], wanted: int) -> list[tuple[_Part, int]]:
    taken = []
    for part, count in zip(parts, available, strict=True):
        taking = max(0, min(count, wanted))
        wanted -= taking
        taken.append((part, taking))
    return taken


def _priority_class(task: Task) -> str:
    spec = (task.obj.get("template") or {}).get("spec") or {}
    return str(spec.get("priorityClassName") or "")


def _spec(job: Job, priorities: Mapping[str, int]) -> Obj:
    given = job.obj["spec"]
    spec: Obj = {
        "minMember": job.min_available,
        "minTaskMember": {task.name: _task_members(task) for task in job.tasks},
        "queue": given.get("queue"),
        "priorityClassName": given.get("priorityClassName"),
        "minResources": min_resources(job, priorities),
        "networkTopology": _topology(given.get("networkTopology")),
        "subGroupPolicy": [_subgroup(task) for task in job.tasks if task.partition_size is not None],
    }
    # parity: a gang of nothing has no minMember, and minResources that name nothing.
    return {key: value for key, value in spec.items() if value or key == "minResources"}


def _task_members(task: Task) -> int:
    if task.min_available is not None:
        return task.min_available
    return task.min_partitions * (task.partition_size or 0) or task.replicas


def _topology(given: Obj | None) -> Obj | None:
    if not given:
        return None
    topology = {"mode": given.get("mode")}
    if given.get("highestTierAllowed") is not None:
        topology["highestTierAllowed"] = given["highestTierAllowed"]
    elif given.get("highestTierName"):
        topology["highestTierName"] = given["highestTierName"]
    return {key: value for key, value in topology.items() if value is not None}


def _subgroup(task: Task) -> Obj:
    subgroup: Obj = {
        "name": task.name,
        "subGroupSize": task.partition_size,
        "minSubGroups": task.min_partitions,
        "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION_ID],
    }
    topology = _topology((task.obj.get("partitionPolicy") or {}).get("networkTopology"))
    if topology:
        subgroup["networkTopology"] = topology
    return subgroup


def complaint(group: Obj) -> tuple[str, str] | None:
    """Type and message of the last word about a gang; None when it was that it is scheduled, or there is none."""
    status = group.get("status") or {}
    last = last_word(status.get("conditions") or (), status.get("phase"))
    if last is None or is_good(last):
        return None
    return str(last.get("type", "")), str(last.get("message", ""))


def pending_message(job: Job, group: Obj) -> str | None:
    """Why the gang waits, for an Event on the Job."""
    found = complaint(group)
    if found is None:
        return None
    kind, message = found
    return f"PodGroup {job.key.namespace}:{job.key.name} {kind.lower()}, reason: {message}"
