"""The columns of Kubernetes' own kinds, as kubectl's users know them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from hekla.api.duration import human_duration
from hekla.api.kinds import Obj
from hekla.api.meta import parse_timestamp

Cell = Callable[[Obj, datetime], Any]
Column = tuple[str, str, int, Cell]

_NONE = "<none>"
_UNKNOWN = "<unknown>"


def age(text: str | None, now: datetime) -> str:
    """How long ago, as kubectl says it: `5s`, `3m20s`, `4h`, `12d`."""
    if not text:
        return _UNKNOWN
    try:
        seconds = int((now - parse_timestamp(text)).total_seconds())
    except ValueError:
        return "<invalid>"
    return human_duration(seconds)


def _at(*path: str, default: Any = _NONE) -> Cell:
    return _Path(path, default)


class _Path:
    def __init__(self, path: tuple[str, ...], default: Any) -> None:
        self._path = path
        self._default = default

    def __call__(self, obj: Obj, now: datetime) -> Any:
        value: Any = obj
        for part in self._path:
            value = value.get(part) if isinstance(value, dict) else None
        return self._default if value is None or value == "" else value


def _created(obj: Obj, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


_AGE: Column = ("Age", "string", 0, _created)


def _statuses(pod: Obj) -> list[Obj]:
    return (pod.get("status") or {}).get("containerStatuses") or []


def _pod_ready(pod: Obj, now: datetime) -> str:
    ready = sum(bool(each.get("ready")) for each in _statuses(pod))
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or ())}"


def pod_status(pod: Obj, now: datetime) -> str:
    """The one word kubectl shows for a pod: the worst of its phase, its containers and its deletion."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    gated = any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in status.get("conditions") or ()
    )
    if gated:
        reason = "SchedulingGated"
    init = _init_reason(pod)
    if init:
        reason = init
    else:
        for each in reversed(_statuses(pod)):
            reason = _container_reason(each) or reason
        if reason == "Completed" and any(_runs(each) for each in _statuses(pod)):
            reason = "Running" if _is_ready(status) else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _runs(status: Obj) -> bool:
    return bool(status.get("ready")) and (status.get("state") or {}).get("running") is not None


def _is_ready(status: Obj) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _init_reason(pod: Obj) -> str:
    listed = (pod.get("status") or {}).get("initContainerStatuses") or []
    for index, each in enumerate(listed):
        state = each.get("state") or {}
        terminated = state.get("terminated")
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if each.get("started") and each.get("ready"):
            continue
        if terminated is not None:
            return f"Init:{terminated.get('reason') or 'ExitCode:' + str(terminated.get('exitCode'))}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len((pod.get('spec') or {}).get('initContainers') or ())}"
    return ""


def _container_reason(status: Obj) -> str:
    state = status.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated")
    if waiting.get("reason"):
        return str(waiting["reason"])
    if terminated is None:
        return ""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _pod_restarts(pod: Obj, now: datetime) -> str:
    total = sum(int(each.get("restartCount") or 0) for each in _statuses(pod))
    finished = [
        each["lastState"]["terminated"]["finishedAt"]
        for each in _statuses(pod)
        if ((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    ]
    return f"{total} ({age(max(finished), now)} ago)" if total and finished else str(total)


def _readiness_gates(pod: Obj, now: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or []
    if not gates:
        return _NONE
    true = {c["type"] for c in (pod.get("status") or {}).get("conditions") or () if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


def _node_status(node: Obj, now: datetime) -> str:
    conditions = {c["type"]: c.get("status") for c in (node.get("status") or {}).get("conditions") or ()}
    words = ["Ready" if conditions.get("Ready") == "True" else "NotReady"] if "Ready" in conditions else ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Obj, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix) and name != prefix)
    return ",".join(roles) or _NONE


def _node_address(type_: str) -> Cell:
    return _Address(type_)


class _Address:
    def __init__(self, type_: str) -> None:
        self._type = type_

    def __call__(self, obj: Obj, now: datetime) -> str:
        listed = (obj.get("status") or {}).get("addresses") or ()
        return next((str(each["address"]) for each in listed if each.get("type") == self._type), _NONE)


def _node_info(name: str) -> Cell:
    return _at("status", "nodeInfo", name, default=_UNKNOWN)


def _service_ports(service: Obj, now: datetime) -> str:
    words = []
    for port in (service.get("spec") or {}).get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        words.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(words) or _NONE


def _selector(obj: Obj, now: datetime) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    selector = selector.get("matchLabels", selector) if isinstance(selector, dict) else {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or _NONE


def _count(*fields: str) -> Cell:
    return _Count(fields)


class _Count:
    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = fields

    def __call__(self, obj: Obj, now: datetime) -> int:
        return sum(len(obj.get(field) or ()) for field in self._fields)


def _last_seen(event: Obj, now: datetime) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return age(series or event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"), now)


def _first_seen(event: Obj, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_object(event: Obj, now: datetime) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_count(event: Obj, now: datetime) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def _event_source(event: Obj, now: datetime) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    return f"{component}, {source['host']}" if source.get("host") else str(component)


def _replicas(obj: Obj, now: datetime) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{(obj.get('spec') or {}).get('replicas', 0)}"


def _completions(job: Obj, now: datetime) -> str:
    return f"{(job.get('status') or {}).get('succeeded', 0)}/{(job.get('spec') or {}).get('completions', 1)}"


def _access_modes(obj: Obj, now: datetime) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in (obj.get("spec") or {}).get("accessModes") or ())


def _text(name: str, cell: Cell, priority: int = 0) -> Column:
    return name, "string", priority, cell


BUILT_IN_TABLES: dict[str, list[Column]] = {
    "/pods": [
        _text("Ready", _pod_ready),
        _text("Status", pod_status),
        _text("Restarts", _pod_restarts),
        _AGE,
        _text("IP", _at("status", "podIP"), 1),
        _text("Node", _at("spec", "nodeName"), 1),
        _text("Nominated Node", _at("status", "nominatedNodeName"), 1),
        _text("Readiness Gates", _readiness_gates, 1),
    ],
    "/nodes": [
        _text("Status", _node_status),
        _text("Roles", _node_roles),
        _AGE,
        _text("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        _text("Internal-IP", _node_address("InternalIP"), 1),
        _text("External-IP", _node_address("ExternalIP"), 1),
        _text("OS-Image", _node_info("osImage"), 1),
        _text("Kernel-Version", _node_info("kernelVersion"), 1),
        _text("Container-Runtime", _node_info("containerRuntimeVersion"), 1),
    ],
    "/services": [
        _text("Type", _at("spec", "type")),
        _text("Cluster-IP", _at("spec", "clusterIP")),
        _text("External-IP", _at("spec", "externalName")),
        _text("Port(s)", _service_ports),
        _AGE,
        _text("Selector", _selector, 1),
    ],
    "/events": [
        _text("Last Seen", _last_seen),
        _text("Type", _at("type", default="")),
        _text("Reason", _at("reason", default="")),
        _text("Object", _event_object),
        _text("Subobject", _at("involvedObject", "fieldPath", default=""), 1),
        _text("Source", _event_source, 1),
        _text("Message", _at("message", default="")),
        _text("First Seen", _first_seen, 1),
        _text("Count", _event_count, 1),
        _text("Name", _at("metadata", "name"), 1),
    ],
    "/configmaps": [("Data", "string", 0, _count("data", "binaryData")), _AGE],
    "/secrets": [_text("Type", _at("type")), ("Data", "string", 0, _count("data")), _AGE],
    "/namespaces": [_text("Status", _at("status", "phase")), _AGE],
    "/serviceaccounts": [("Secrets", "string", 0, _count("secrets")), _AGE],
    "/persistentvolumeclaims": [
        _text("Status", _at("status", "phase")),
        _text("Volume", _at("spec", "volumeName", default="")),
        _text("Capacity", _at("status", "capacity", "storage", default="")),
        _text("Access Modes", _access_modes),
        _text("StorageClass", _at("spec", "storageClassName", default="")),
        _text("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", default="<unset>")),
        _AGE,
        _text("VolumeMode", _at("spec", "volumeMode"), 1),
    ],
    "/persistentvolumes": [
        _text("Capacity", _at("spec", "capacity", "storage", default="")),
        _text("Access Modes", _access_modes),
        _text("Reclaim Policy", _at("spec", "persistentVolumeReclaimPolicy")),
        _text("Status", _at("status", "phase")),
        _text("StorageClass", _at("spec", "storageClassName", default="")),
        _AGE,
    ],
    "apps/deployments": [
        _text("Ready", _replicas),
        ("Up-to-date", "string", 0, _at("status", "updatedReplicas", default=0)),
        ("Available", "string", 0, _at("status", "availableReplicas", default=0)),
        _AGE,
    ],
    "apps/replicasets": [
        ("Desired", "integer", 0, _at("spec", "replicas", default=0)),
        ("Current", "integer", 0, _at("status", "replicas", default=0)),
        ("Ready", "integer", 0, _at("status", "readyReplicas", default=0)),
        _AGE,
    ],
    "apps/statefulsets": [_text("Ready", _replicas), _AGE],
    "batch/jobs": [_text("Completions", _completions), _AGE],
    "scheduling.k8s.io/priorityclasses": [
        ("Value", "integer", 0, _at("value", default=0)),
        ("Global-Default", "boolean", 0, _at("globalDefault", default=False)),
        _AGE,
        _text("PreemptionPolicy", _at("preemptionPolicy")),
    ],
    "coordination.k8s.io/leases": [_text("Holder", _at("spec", "holderIdentity", default="")), _AGE],
    "networking.k8s.io/networkpolicies": [
        _text(
            "Pod-Selector",
            lambda obj, now: _selector({"spec": {"selector": (obj.get("spec") or {}).get("podSelector")}}, now),
        ),
        _AGE,
    ],
}
