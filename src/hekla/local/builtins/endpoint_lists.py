"""What EndpointSlices and Endpoints say of a Service: which pods are behind it, where, and whether they are ready.

Pods that have ended are left out, and so are those without an address yet. An endpoint stays in the slice it is in, so
that a pod that comes or goes changes one slice of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import SERVICE, Obj
from hekla.api.meta import is_deleting, labels_of, name_of, namespace_of, owner_reference, uid_of
from hekla.api.pod_ports import target_port

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_HEADLESS = "service.kubernetes.io/headless"
_LEGACY_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_LEGACY_MANAGER = "endpoint-controller"
_PER_SLICE = 100
_PER_ENDPOINTS = 1000
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"

# A port of an endpoint as something that can be compared: name, number, protocol, application protocol.
_Port = tuple[str, int, str, str]
_Ports = tuple[_Port, ...]


@dataclass
class SlicePlan:
    """`changed` are those that are there and have to say something else; `surplus` those that go."""

    created: list[Obj] = field(default_factory=list)
    changed: list[Obj] = field(default_factory=list)
    surplus: list[Obj] = field(default_factory=list)


def has_endpoints(service: Obj) -> bool:
    """Whether it is up to us which endpoints it has."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def plan_slices(service: Obj, pods: Iterable[Obj], existing: Sequence[Obj]) -> SlicePlan:
    plan = SlicePlan()
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    members = list(pods)
    found: dict[tuple[str, _Ports], list[Obj]] = {}
    for one in existing:
        found.setdefault((str(one.get("addressType")), _ports_of(one)), []).append(one)
    for family in families:
        for ports, endpoints in (_by_ports(service, members, family) or {(): {}}).items():
            _plan_group(plan, service, family, ports, endpoints, found.pop((family, ports), ()))
    plan.surplus += [one for left in found.values() for one in left]
    return plan


def legacy_endpoints(service: Obj, pods: Iterable[Obj]) -> Obj:
    """The same as one object, for those who do not know slices: the first thousand addresses."""
    keeps_leaving = bool(service["spec"].get("publishNotReadyAddresses"))
    staying = [pod for pod in pods if keeps_leaving or not is_deleting(pod)]
    family = (service["spec"].get("ipFamilies") or ["IPv4"])[0]
    endpoints = {
        uid: each for of_ports in _by_ports(service, staying, family).values() for uid, each in of_ports.items()
    }
    shown = sorted(endpoints, key=lambda uid: str(endpoints[uid]["addresses"][0]))[:_PER_ENDPOINTS]
    subsets = [
        _subset(ports, [endpoints[uid] for uid in shown if uid in uids])
        for ports, uids in _with_the_same_pods(service, staying, frozenset(shown))
    ]
    labels = {**labels_of(service), _LEGACY_MANAGED_BY: _LEGACY_MANAGER}
    if _is_headless(service):
        labels[_HEADLESS] = ""
    metadata: Obj = {
        "name": name_of(service),
        "namespace": namespace_of(service),
        "labels": labels,
        "ownerReferences": [owner_reference(service, SERVICE)],
    }
    if len(endpoints) > _PER_ENDPOINTS:
        metadata["annotations"] = {_OVER_CAPACITY: "truncated"}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}


def _with_the_same_pods(
    service: Obj, pods: Iterable[Obj], shown: frozenset[str]
) -> list[tuple[list[_Port], frozenset[str]]]:
    """The ports, those together that the same pods have, and the uids of these."""
    of_port: dict[_Port | None, set[str]] = {}
    for pod in pods:
        for port in _ports(service, pod) or (None,):
            of_port.setdefault(port, set()).update(shown & {uid_of(pod)})
    grouped: dict[frozenset[str], list[_Port]] = {}
    for port, uids in of_port.items():
        grouped.setdefault(frozenset(uids), []).extend([] if port is None else [port])
    return [(sorted(ports), uids) for uids, ports in grouped.items() if uids]


def _subset(ports: Sequence[_Port], endpoints: Sequence[Obj]) -> Obj:
    told = {
        "addresses": [_legacy_address(one) for one in endpoints if one["conditions"]["ready"]],
        "notReadyAddresses": [_legacy_address(one) for one in endpoints if not one["conditions"]["ready"]],
        "ports": [_legacy_port(*port) for port in ports],
    }
    return {key: value for key, value in told.items() if value}


def _plan_group(
    plan: SlicePlan, service: Obj, family: str, ports: _Ports, wanted: Mapping[str, Obj], existing: Sequence[Obj]
) -> None:
    """What has to be done about the endpoints with the same ports; `existing` are the slices with these."""
    # 1. Who is in a slice stays there.
    newcomers, labels = dict(wanted), _slice_labels(service)
    held = [[newcomers.pop(uid) for uid in _pods_in(one) if uid in newcomers] for one in existing]
    # 2. Who is new goes where there is room.
    for endpoints in held:
        for uid in list(newcomers)[: _PER_SLICE - len(endpoints)]:
            endpoints.append(newcomers.pop(uid))
    # 3. What a slice says has changed, or there is nothing left in it. One may say that there are none at all.
    for index, (one, endpoints) in enumerate(zip(existing, held, strict=True)):
        if not endpoints and (wanted or index):
            plan.surplus.append(one)
        elif endpoints != (one.get("endpoints") or []) or labels_of(one) != labels:
            plan.changed.append({**one, "metadata": {**one["metadata"], "labels": labels}, "endpoints": endpoints})
    # 4. Who has found no room gets new slices.
    rest = list(newcomers.values())
    says_none = not wanted and not existing
    for start in range(0, len(rest) or int(says_none), _PER_SLICE):
        plan.created.append(_new_slice(service, family, ports, rest[start : start + _PER_SLICE], labels))


def _by_ports(service: Obj, pods: Iterable[Obj], family: str) -> dict[_Ports, dict[str, Obj]]:
    """Endpoints by the uid of their pod, those with the same ports together."""
    grouped: dict[_Ports, dict[str, Obj]] = {}
    for pod in pods:
        address = _address(pod, family)
        if address and (pod.get("status") or {}).get("phase") not in FINISHED_POD_PHASES:
            grouped.setdefault(_ports(service, pod), {})[uid_of(pod)] = _endpoint(service, pod, address)
    return grouped


def _address(pod: Obj, family: str) -> str:
    status = pod.get("status") or {}
    given = [str(each.get("ip") or "") for each in status.get("podIPs") or ()] or [str(status.get("podIP") or "")]
    return next((one for one in given if one and (":" in one) == (family == "IPv6")), "")


def _ports(service: Obj, pod: Obj) -> _Ports:
    found = []
    for port in service["spec"].get("ports") or ():
        number = target_port(pod, port)
        if number is not None:
            found.append(_port({**port, "port": number}))
    return tuple(found)


def _endpoint(service: Obj, pod: Obj, address: str) -> Obj:
    serving = _is_ready(pod)
    terminating = is_deleting(pod)
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not terminating)
    target = {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}
    told: Obj = {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target,
    }
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain") == name_of(service):
        told["hostname"] = spec["hostname"]
    if spec.get("nodeName"):
        told["nodeName"] = spec["nodeName"]
    return told


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _new_slice(service: Obj, family: str, ports: _Ports, endpoints: list[Obj], labels: Mapping[str, str]) -> Obj:
    metadata = {
        "generateName": f"{name_of(service)}-",
        "namespace": namespace_of(service),
        "labels": labels,
        "ownerReferences": [owner_reference(service, SERVICE)],
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": endpoints,
        "ports": [_slice_port(*port) for port in ports],
    }


def _slice_labels(service: Obj) -> dict[str, str]:
    own = {SERVICE_NAME: name_of(service), MANAGED_BY: MANAGER}
    return {**labels_of(service), **own, **({_HEADLESS: ""} if _is_headless(service) else {})}


def _is_headless(service: Obj) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def _slice_port(name: str, number: int, protocol: str, application: str) -> Obj:
    told: Obj = {"name": name, "port": number, "protocol": protocol}
    return {**told, "appProtocol": application} if application else told


def _legacy_port(name: str, number: int, protocol: str, application: str) -> Obj:
    told = _slice_port(name, number, protocol, application)
    return told if name else {key: value for key, value in told.items() if key != "name"}


def _legacy_address(endpoint: Obj) -> Obj:
    told: Obj = {"ip": endpoint["addresses"][0], "targetRef": endpoint["targetRef"]}
    return {**told, **{key: endpoint[key] for key in ("hostname", "nodeName") if key in endpoint}}


def _ports_of(one: Obj) -> _Ports:
    return tuple(_port(port) for port in one.get("ports") or ())


def _port(port: Obj) -> _Port:
    name, protocol, application = (str(port.get(key) or "") for key in ("name", "protocol", "appProtocol"))
    return name, int(port.get("port") or 0), protocol or "TCP", application


def _pods_in(one: Obj) -> list[str]:
    return [str((endpoint.get("targetRef") or {}).get("uid") or "") for endpoint in one.get("endpoints") or ()]
