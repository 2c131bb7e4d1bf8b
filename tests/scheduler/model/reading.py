"""Objects of the API as the model has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.scheduler.model.amounts import BASIC, PODS, Amounts, is_nothing, most, read, total
from tests.scheduler.model.cluster import Budget, Cluster, Group, Node, Pod, Queue, Status

Obj = dict[str, Any]
Objects = dict[tuple[str, str], Obj]


def read_cluster(objects: Objects) -> Cluster:
    queues = {obj["metadata"]["name"]: _queue(obj) for obj in _of_kind(objects, "Queue")}
    classes = list(_of_kind(objects, "PriorityClass"))
    # A group whose queue does not exist waits until it does; its pods hold what they hold.
    groups = [_group(obj, queues, classes) for obj in _of_kind(objects, "PodGroup") if _queue_of(obj) in queues]
    cluster = Cluster(
        nodes=sorted((_node(obj) for obj in _of_kind(objects, "Node")), key=lambda node: node.name),
        queues=queues,
        groups=groups,
        pods=[],
        budgets=[_budget(obj) for obj in _of_kind(objects, "PodDisruptionBudget")],
    )
    for obj in _of_kind(objects, "Pod"):
        pod = _pod(obj)
        # Another scheduler's pod matters once it has a node.
        if pod.ours or pod.node:
            cluster.pods.append(pod)
            _join(pod, obj, groups)
    return cluster


def _of_kind(objects: Objects, kind: str) -> Iterable[Obj]:
    return (obj for (found, _), obj in objects.items() if found == kind)


def _queue_of(obj: Obj) -> str:
    return str(obj["spec"].get("queue") or "default")


def _node(obj: Obj) -> Node:
    spec = obj.get("spec") or {}
    return Node(
        name=obj["metadata"]["name"],
        allocatable=read(obj["status"]["allocatable"]),
        labels=obj["metadata"].get("labels") or {},
        taints=spec.get("taints") or [],
        unschedulable=bool(spec.get("unschedulable")),
    )


def _queue(obj: Obj) -> Queue:
    meta, spec = obj["metadata"], obj["spec"]
    annotations = meta.get("annotations") or {}
    names = annotations.get("volcano.sh/hierarchy", "").split("/")[1:]
    weights = annotations.get("volcano.sh/hierarchy-weights", "").split("/")[1:]
    return Queue(
        name=meta["name"],
        created=meta["creationTimestamp"],
        weight=spec.get("weight", 1),
        priority=spec.get("priority", 0),
        is_open=obj["status"]["state"] == "Open",
        reclaimable=spec.get("reclaimable") is not False,
        parent="" if meta["name"] == "root" else spec.get("parent") or "root",
        capability=_named_only(spec.get("capability")),
        deserved=_named_only(spec.get("deserved")),
        guarantee=_named_only((spec.get("guarantee") or {}).get("resource")),
        departments=[(name, float(weight)) for name, weight in zip(names, weights)],
    )


def _named_only(given: Obj | None) -> Amounts:
    return {name: amount for name, amount in read(given).items() if name in (given or {})}


def _group(obj: Obj, queues: dict[str, Queue], classes: list[Obj]) -> Group:
    meta, spec = obj["metadata"], obj["spec"]
    values = {found["metadata"]["name"]: found["value"] for found in classes}
    default = max((found["value"] for found in classes if found.get("globalDefault")), default=0)
    return Group(
        name=meta["name"],
        namespace=meta["namespace"],
        queue=queues[_queue_of(obj)],
        created=meta["creationTimestamp"],
        priority=values.get(spec.get("priorityClassName"), default),
        minimum=spec.get("minMember", 0),
        of_role=spec.get("minTaskMember") or {},
        policies=spec.get("subGroupPolicy") or [],
        needs=read(spec["minResources"]) if "minResources" in spec else None,
        phase=(obj.get("status") or {}).get("phase") or "Pending",
    )


def _budget(obj: Obj) -> Budget:
    selector = obj["spec"]["selector"]["matchLabels"]
    return Budget(obj["metadata"]["namespace"], selector, obj["status"]["disruptionsAllowed"])


def _pod(obj: Obj) -> Pod:
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    request = _request(spec)
    priority = spec["priority"] if spec.get("priority") is not None else 1
    return Pod(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        created=meta["creationTimestamp"],
        node=spec.get("nodeName") or "",
        status=_status(obj),
        request={**request, PODS: 1.0},
        best_effort=is_nothing(request),
        priority=int(annotations.get("volcano.sh/task-priority", priority)),
        priority_class=spec.get("priorityClassName") or "",
        role=annotations.get("volcano.sh/task-spec", ""),
        labels=labels,
        selector=spec.get("nodeSelector") or {},
        tolerations=spec.get("tolerations") or [],
        ports=frozenset(port["hostPort"] for each in spec["containers"] for port in each.get("ports") or ()),
        ours=spec.get("schedulerName") == "volcano",
        preemptable=annotations.get("volcano.sh/preemptable", "true") == "true",
        preempts=spec.get("preemptionPolicy") != "Never",
        gated=bool(spec.get("schedulingGates")),
        deleted="deletionTimestamp" in meta,
        nominated=status.get("nominatedNodeName") or "",
    )


def _request(spec: Obj) -> Amounts:
    """What its containers ask for together, or one of those that run before them, where that is more."""
    found = total(read((each.get("resources") or {}).get("requests")) for each in spec["containers"])
    for each in spec.get("initContainers") or ():
        found = most(found, read((each.get("resources") or {}).get("requests")))
    return {name: amount for name, amount in found.items() if amount or name in BASIC}


def _status(obj: Obj) -> Status:
    phase = (obj.get("status") or {}).get("phase", "Pending")
    if phase in ("Pending", "Running") and "deletionTimestamp" in obj["metadata"]:
        return Status.RELEASING
    if phase == "Pending":
        return Status.BOUND if obj["spec"].get("nodeName") else Status.PENDING
    known = {"Running": Status.RUNNING, "Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED}
    return known.get(phase, Status.UNKNOWN)


def _join(pod: Pod, obj: Obj, groups: list[Group]) -> None:
    """Have it among the pods of its group, and in the first subgroup that wants it."""
    name = (obj["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name")
    group = next((group for group in groups if group.key == (pod.namespace, name)), None)
    # One that has ended well and is being deleted was counted by its Job, and is nobody's any more.
    if group is None or (pod.status is Status.SUCCEEDED and pod.deleted):
        return
    pod.group = group
    group.pods.append(pod)
    for number, policy in enumerate(group.policies):
        values = [pod.labels.get(key, "") for key in policy["matchLabelKeys"]]
        if all(values):
            pod.subgroup = (number, *values)
            return
