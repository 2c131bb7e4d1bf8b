"""A cluster in a dict: objects in the short shape of the cases, cycles of the real core, and a kubelet that always
runs.

Nothing here decides anything. `settle` runs cycles and applies their plans, as binder and kubelet would, until
nothing changes any more.
"""

from __future__ import annotations

import copy
from typing import Any

from hekla.api.batch import PARTITION_ID
from hekla.api.devices import GPU_INDEX
from hekla.api.kinds import Obj
from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, default_config, parse_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.groupstatus import group_status, shown_amounts, waiting_annotations
from hekla.scheduler.intake import doors_of, take_in
from hekla.scheduler.plan import Eviction, Plan
from tests.scheduler.storage_objects import HOSTNAME, settle_claim, storage_objects

_MOST_CYCLES = 20
_OF_EACH_POD = (
    "cpu", "memory", "gpu", "selector", "tolerations", "node", "preemptable", "labels", "affinity", "spread", "role",
    "volumes", "claims", "owner", "image", "gpu-memory", "gpu-number",
)  # fmt: skip
_START = 1893456000.0  # 2030-01-01


class Miniature:
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or default_config()
        self.objects: dict[tuple[str, str], Obj] = {}
        self.events: dict[str, list[str]] = {}
        self.evicted: dict[str, str] = {}  # action by pod
        self.linger = False
        self.now = 0.0  # seconds since the first object was made
        self.cycles = 0
        self._seconds = 0
        self._made = 0

    def add(self, given: dict[str, Any]) -> None:
        """Objects in the short shape: nodes, queues, classes, groups with their pods, pods."""
        for node in given.get("nodes", ()):
            self.put(node_object(node))
        for queue in given.get("queues", ()):
            self.put(queue_object(queue))
        for name, value in given.get("classes", {}).items():
            given_class = value if isinstance(value, dict) else {"value": value}
            self.put({"kind": "PriorityClass", "metadata": {"name": name}, **given_class})
        for obj in storage_objects(given.get("storage", {})):
            self.put(obj)
        for obj in given.get("objects", ()):
            self.put(copy.deepcopy(obj))
        for group in given.get("groups", ()):
            self._seconds += 10
            self.put(group_object(group))
            for pod in pods_of(group):
                self.put(pod_object(pod, group["name"]))
        for pod in given.get("pods", ()):
            self.put(pod_object(pod, pod.get("group")))

    def put(self, obj: Obj) -> None:
        meta = obj["metadata"]
        self._made += 1
        meta.setdefault("uid", f"uid-{self._made:05}")
        meta.setdefault("creationTimestamp", f"2030-01-01T00:{self._seconds // 60:02}:{self._seconds % 60:02}Z")
        meta.setdefault("resourceVersion", "1")
        name = (obj.get("spec") or {}).get("priorityClassName")
        if obj["kind"] == "Pod" and ("PriorityClass", name) in self.objects:
            found = self.objects["PriorityClass", name]
            obj["spec"]["priority"] = found["value"]
            obj["spec"].setdefault("preemptionPolicy", found.get("preemptionPolicy", "PreemptLowerPriority"))
        self.objects[obj["kind"], meta["name"]] = obj

    def cache(self) -> Cache:
        cache = Cache(queue_gates=True)
        put = {kind.kind: door.put for kind, door in doors_of(cache).items()} | {"Pod": cache.put_pod}
        for (kind, _), obj in self.objects.items():
            take_in(put[kind], copy.deepcopy(obj))
        return cache

    def cycle(self) -> Plan:
        self.cycles += 1
        snapshot = self.cache().snapshot(f"cycle-{self.cycles}", now=_START + self.now)
        return run_cycle(snapshot, self.config)

    def settle(self) -> None:
        for _ in range(_MOST_CYCLES):
            if not self.apply(self.cycle()):
                return
        raise AssertionError("never came to rest")

    def apply(self, plan: Plan) -> bool:
        changed = [self._apply_queue(queue.name, shown_amounts(queue)) for queue in plan.queues]
        changed.append(self._remove_leaving())
        for eviction in plan.evictions:
            changed.append(True)
            self._evict(eviction)
        for outcome in plan.groups:
            row = outcome.group.row
            for told in outcome.announcements:
                self._tell(f"PodGroup/{row.key.name}", f"{told.type} {told.reason}: {told.message}")
            status = group_status(row, outcome, plan.cycle_id, "2030-01-01T00:00:00Z")
            changed.append(self._apply_group(row.key.name, status or {}))
            changed.append(self._apply_annotations(row.key.name, waiting_annotations(row, outcome) or {}))
            for pod, condition in outcome.pod_conditions:
                entry = {"type": "PodScheduled", "status": "False"}
                entry |= {"reason": condition.reason, "message": condition.message}
                changed.append(self._apply_condition(pod.name, entry, condition.nominated))
        for pod in plan.admitted:
            del self.objects["Pod", pod.name]["spec"]["schedulingGates"]
            changed.append(True)
        for placement in plan.placements:
            for choice in dict.fromkeys(choice for found in placement.choices.values() for choice in found):
                settle_claim(self.objects, choice)
            for pod, node in placement.pairs():
                obj = self.objects["Pod", pod.name]
                assert "nodeName" not in obj["spec"], f"{pod.name} bound twice"
                obj["spec"]["nodeName"] = node
                if pod.cards:
                    obj["metadata"]["annotations"][GPU_INDEX] = ",".join(map(str, pod.cards))
                obj["status"] = {"phase": "Running"}
                changed.append(True)
        return any(changed)

    def node_of(self, pod: str) -> str | None:
        found = self.objects["Pod", pod]["spec"].get("nodeName")
        return None if found is None else str(found)

    def cards_of(self, pod: str) -> str:
        return str(self.objects["Pod", pod]["metadata"]["annotations"].get(GPU_INDEX, ""))

    def message_of(self, pod: str) -> str | None:
        conditions = (self.objects["Pod", pod].get("status") or {}).get("conditions") or [{}]
        found = conditions[0].get("message")
        return None if found is None else str(found)

    def group(self, name: str) -> Obj:
        status: Obj = self.objects["PodGroup", name].get("status") or {}
        return status

    def conditions_of(self, group: str) -> dict[str, str]:
        return {item["type"]: item.get("message", "") for item in self.group(group).get("conditions", ())}

    def waiting_of(self, group: str) -> tuple[str, str]:
        annotations = self.objects["PodGroup", group]["metadata"].get("annotations", {})
        return annotations.get(REASON_ANNOTATION, ""), annotations.get(MESSAGE_ANNOTATION, "")

    def _apply_queue(self, name: str, allocated: dict[str, str]) -> bool:
        status = self.objects["Queue", name].setdefault("status", {})
        if status.get("allocated") == allocated:
            return False
        status["allocated"] = allocated
        return True

    def _apply_group(self, name: str, patch: dict[str, Any]) -> bool:
        status = self.objects["PodGroup", name].setdefault("status", {})
        for key, value in patch.items():
            if value is None:
                status.pop(key, None)
            else:
                status[key] = value
        return bool(patch)

    def _apply_annotations(self, name: str, patch: dict[str, str | None]) -> bool:
        annotations = self.objects["PodGroup", name]["metadata"].setdefault("annotations", {})
        for key, value in patch.items():
            annotations.pop(key, None) if value is None else annotations.update({key: value})
        return bool(patch)

    def _evict(self, eviction: Eviction) -> None:
        pod = self.objects["Pod", eviction.pod.name]
        assert "deletionTimestamp" not in pod["metadata"], f"{eviction.pod.name} evicted twice"
        pod["metadata"]["deletionTimestamp"] = "2030-01-02T00:00:00Z"
        self.evicted[eviction.pod.name] = eviction.reason

    def _remove_leaving(self) -> bool:
        """Pods that were told to go in an earlier cycle are gone, unless pods of this cluster linger."""
        going = [key for key, obj in self.objects.items() if "deletionTimestamp" in obj["metadata"]]
        if self.linger:
            return False
        for key in going:
            del self.objects[key]
        return bool(going)

    def _apply_condition(self, pod: str, entry: dict[str, str], nominated: str) -> bool:
        status = self.objects["Pod", pod].setdefault("status", {"phase": "Pending"})
        if nominated:
            status["nominatedNodeName"] = nominated
        if status.get("conditions") == [entry]:
            return False
        status["conditions"] = [entry]
        return True

    def _tell(self, who: str, what: str) -> None:
        told = self.events.setdefault(who, [])
        if what not in told:
            told.append(what)


def resources(given: dict[str, Any]) -> dict[str, str]:
    found = {name: str(given[name]) for name in ("cpu", "memory") if name in given}
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


def short_config(actions: str, tiers: list[list[Any]]) -> Config:
    import yaml

    document = {
        "actions": actions,
        "tiers": [
            {"plugins": [{"name": entry} if isinstance(entry, str) else entry for entry in tier]} for tier in tiers
        ],
    }
    return parse_config(yaml.safe_dump(document))
