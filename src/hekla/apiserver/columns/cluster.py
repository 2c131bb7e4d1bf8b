"""Nodes, and what a cluster is ordered by: names, rights, limits, Events."""

from __future__ import annotations

from datetime import datetime

from hekla.api.kinds import Obj
from hekla.apiserver.columns.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    Column,
    age,
    at,
    count,
    joined,
    text,
    whole_number,
)

_ROLE = "node-role.kubernetes.io/"


def _node_status(node: Obj, now: datetime) -> str:
    conditions = {c.get("type"): c.get("status") for c in (node.get("status") or {}).get("conditions") or ()}
    words = ["Ready" if conditions.get("Ready") == "True" else "NotReady"] if "Ready" in conditions else ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Obj, now: datetime) -> str:
    labels = node["metadata"].get("labels") or {}
    return (
        ",".join(sorted(name.removeprefix(_ROLE) for name in labels if name.startswith(_ROLE) and name != _ROLE))
        or NONE
    )


def _node_address(kind: str) -> Cell:
    def cell(node: Obj, now: datetime) -> str:
        listed = (node.get("status") or {}).get("addresses") or ()
        return next((str(each.get("address", "")) for each in listed if each.get("type") == kind), NONE)

    return cell


def _node_info(name: str) -> Cell:
    return at("status", "nodeInfo", name, default=UNKNOWN)


def _kernel(node: Obj, now: datetime) -> str:
    version, machine = _node_info("kernelVersion")(node, now), _node_info("architecture")(node, now)
    return str(version) if machine == UNKNOWN else f"{version} ({machine})"


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


def _quota(*, limits: bool) -> Cell:
    def cell(quota: Obj, now: datetime) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        named = sorted(name for name in hard if name.startswith("limits.") == limits)
        return joined(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in named)

    return cell


def _bound(field: str) -> Cell:
    return lambda budget, now: str(at("spec", field, default="N/A")(budget, now))


def _role(binding: Obj, now: datetime) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Obj, now: datetime) -> str:
        return joined(_subject(each) for each in binding.get("subjects") or () if each.get("kind") == kind)

    return cell


def _subject(subject: Obj) -> str:
    namespace = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{namespace}{subject.get('name', '')}"


_BINDINGS = [
    NAME,
    text("Role", _role),
    AGE,
    text("Users", _subjects("User"), 1),
    text("Groups", _subjects("Group"), 1),
    text("ServiceAccounts", _subjects("ServiceAccount"), 1),
]
_WEBHOOKS = [NAME, whole_number("Webhooks", count("webhooks")), AGE]

CLUSTER: dict[str, list[Column]] = {
    "/nodes": [
        NAME,
        text("Status", _node_status),
        text("Roles", _node_roles),
        AGE,
        text("Version", at("status", "nodeInfo", "kubeletVersion", default="")),
        text("Internal-IP", _node_address("InternalIP"), 1),
        text("External-IP", _node_address("ExternalIP"), 1),
        text("OS-Image", _node_info("osImage"), 1),
        text("Kernel-Version", _kernel, 1),
        text("Container-Runtime", _node_info("containerRuntimeVersion"), 1),
    ],
    "/events": [
        text("Last Seen", _last_seen),
        text("Type", at("type", default="")),
        text("Reason", at("reason", default="")),
        text("Object", _event_object),
        text("Subobject", at("involvedObject", "fieldPath", default=""), 1),
        text("Source", _event_source, 1),
        text("Message", at("message", default="")),
        text("First Seen", _first_seen, 1),
        text("Count", _event_count, 1),
        text("Name", at("metadata", "name"), 1),
    ],
    "/configmaps": [NAME, text("Data", count("data", "binaryData")), AGE],
    "/secrets": [NAME, text("Type", at("type", default="")), text("Data", count("data")), AGE],
    "/namespaces": [NAME, text("Status", at("status", "phase", default="")), AGE],
    "/serviceaccounts": [NAME, AGE],
    "/resourcequotas": [NAME, text("Request", _quota(limits=False)), text("Limit", _quota(limits=True)), AGE],
    "policy/poddisruptionbudgets": [
        NAME,
        text("Min Available", _bound("minAvailable")),
        text("Max Unavailable", _bound("maxUnavailable")),
        whole_number("Allowed Disruptions", at("status", "disruptionsAllowed", default=0)),
        AGE,
    ],
    "scheduling.k8s.io/priorityclasses": [
        NAME,
        whole_number("Value", at("value", default=0)),
        ("Global-Default", "boolean", 0, at("globalDefault", default=False)),
        AGE,
        text("PreemptionPolicy", at("preemptionPolicy")),
    ],
    "coordination.k8s.io/leases": [NAME, text("Holder", at("spec", "holderIdentity", default="")), AGE],
    "rbac.authorization.k8s.io/rolebindings": _BINDINGS,
    "rbac.authorization.k8s.io/clusterrolebindings": _BINDINGS,
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _WEBHOOKS,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _WEBHOOKS,
}
