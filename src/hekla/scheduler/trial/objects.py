"""Nodes, queues, groups and pods in the short shape of cases, made whole.

nodes: [{name: n1, cpu: 4, labels: {zone: a}}]
groups: [{name: old, pods: 4, min: 4, cpu: 1}]
"""

from __future__ import annotations

from typing import Any

from hekla.api.batch import PARTITION_ID
from hekla.api.kinds import Obj
from hekla.scheduler.trial.storage_objects import HOSTNAME

_OF_EACH_POD = (
    "cpu", "memory", "gpu", "selector", "tolerations", "node", "preemptable", "labels", "affinity", "spread", "role",
    "volumes", "claims", "owner", "image", "gpu-memory", "gpu-number",
)  # fmt: skip


_RESOURCES = ("cpu", "memory", "gpu", "gpu-memory", "gpu-number")
# What may be said of each; another word would say nothing.
WORDS: dict[str, tuple[str, ...]] = {
    "nodes": ("name", "pods", "images", "labels", "annotations", "taints", "unschedulable", *_RESOURCES),
    "queues": (
        "name", "weight", "priority", "capability", "deserved", "guarantee", "parent", "reclaimable", "affinity",
        "annotations", "state",
    ),
    "groups": (
        "name", "pods", "min", "queue", "class", "roles", "needs", "partitions", "annotations", "phase", *_OF_EACH_POD,
    ),
    "pods": (
        "name", "namespace", "group", "annotations", "partition", "port", "scheduler", "class", "policy", "gates",
        "init", "devices", "phase", "since", *_OF_EACH_POD,
    ),
}  # fmt: skip


def resources(given: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {name: str(given[name]) for name in ("cpu", "memory") if name in given}
    if "gpu" in given:
        found["nvidia.com/gpu"] = str(given["gpu"])
    found |= {f"volcano.sh/{name}": str(given[name]) for name in ("gpu-memory", "gpu-number") if name in given}
    return found


def node_object(given: dict[str, Any]) -> Obj:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **resources(given)}
    if "pods" in given:
        amounts["pods"] = str(given["pods"])
    images = [{"names": [name], "sizeBytes": size * 1024 * 1024} for name, size in given.get("images", {}).items()]
    return {
        "kind": "Node",
        "metadata": {
            "name": given["name"],
            "labels": {HOSTNAME: given["name"], **given.get("labels", {})},
            "annotations": given.get("annotations", {}),
        },
        "spec": {key: given[key] for key in ("taints", "unschedulable") if key in given},
        "status": {"allocatable": amounts, "images": images},
    }


def queue_object(given: dict[str, Any]) -> Obj:
    spec: dict[str, Any] = {"weight": given.get("weight", 1), "priority": given.get("priority", 0)}
    for name in ("capability", "deserved"):
        if name in given:
            spec[name] = resources(given[name])
    for name in ("parent", "reclaimable", "affinity"):
        if name in given:
            spec[name] = given[name]
    if "guarantee" in given:
        spec["guarantee"] = {"resource": resources(given["guarantee"])}
    return {
        "kind": "Queue",
        "metadata": {"name": given["name"], "annotations": given.get("annotations", {})},
        "spec": spec,
        "status": {"state": given.get("state", "Open")},
    }


def group_object(given: dict[str, Any]) -> Obj:
    spec: dict[str, Any] = {"minMember": given.get("min", 1)}
    for short, long in (("queue", "queue"), ("class", "priorityClassName"), ("roles", "minTaskMember")):
        if short in given:
            spec[long] = given[short]
    if "needs" in given:
        # As the controllers write it: what quotas count stands beside the resource itself.
        needs = resources(given["needs"])
        spec["minResources"] = {**needs, **{f"requests.{name}": amount for name, amount in needs.items()}}
    if "partitions" in given:
        spec["subGroupPolicy"] = [subgroup_policy(given["partitions"])]
    return {
        "kind": "PodGroup",
        "metadata": {"name": given["name"], "namespace": "test", "annotations": given.get("annotations", {})},
        "spec": spec,
        "status": {"phase": given.get("phase", "Pending")},
    }


def subgroup_policy(given: dict[str, Any]) -> Obj:
    """As a Job's partitioned task has it; `partition` of a pod says where it belongs."""
    policy: Obj = {
        "name": "part",
        "subGroupSize": given["size"],
        "minSubGroups": given.get("min", 0),
        "labelSelector": {"matchExpressions": [{"key": PARTITION_ID, "operator": "Exists"}]},
        "matchLabelKeys": [PARTITION_ID],
    }
    return {**policy, "networkTopology": given["topology"]} if "topology" in given else policy


def pods_of(group: dict[str, Any]) -> list[dict[str, Any]]:
    """`pods: 3` are three alike; a list names them one by one; what the group says holds for each."""
    pods = group.get("pods", 0)
    if isinstance(pods, int):
        pods = [{} for _ in range(pods)]
    alike = {key: value for key, value in group.items() if key in _OF_EACH_POD}
    return [{"name": f"{group['name']}-t-{number}", **alike, **pod} for number, pod in enumerate(pods)]


def pod_object(given: dict[str, Any], group: str | None) -> Obj:
    annotations = dict(given.get("annotations", {}))
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    if "preemptable" in given:
        annotations["volcano.sh/preemptable"] = str(given["preemptable"]).lower()
    if "role" in given:
        annotations["volcano.sh/task-spec"] = given["role"]
    labels = dict(given.get("labels", {}))
    if "partition" in given:
        labels[PARTITION_ID] = str(given["partition"])
    asked = resources(given)
    # Of what cannot be overcommitted a pod states its limit as well, or no server takes it.
    limits = {name: amount for name, amount in asked.items() if "/" in name}
    container: dict[str, Any] = {"name": "main", "resources": {"requests": asked, "limits": limits}}
    if "image" in given:
        container["image"] = given["image"]
    if "port" in given:
        container["ports"] = [{"containerPort": given["port"], "hostPort": given["port"]}]
    spec: dict[str, Any] = {"schedulerName": given.get("scheduler", "volcano"), "containers": [container]}
    for short, long in (
        ("selector", "nodeSelector"),
        ("tolerations", "tolerations"),
        ("affinity", "affinity"),
        ("class", "priorityClassName"),
        ("policy", "preemptionPolicy"),
        ("gates", "schedulingGates"),
        ("spread", "topologySpreadConstraints"),
        ("init", "initContainers"),
        ("volumes", "volumes"),
        ("devices", "resourceClaims"),
        ("node", "nodeName"),
    ):
        if short in given:
            spec[long] = given[short]
    if "claims" in given:
        spec["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in given["claims"]]
    status: dict[str, Any] = {"phase": given.get("phase", "Running" if "node" in given else "Pending")}
    if "since" in given:
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": given["since"]}]
    return {
        "kind": "Pod",
        "metadata": {
            "name": given["name"],
            "namespace": given.get("namespace", "test"),
            "annotations": annotations,
            "labels": labels,
            "ownerReferences": [{"controller": True, **given["owner"]}] if "owner" in given else [],
        },
        "spec": spec,
        "status": status,
    }
