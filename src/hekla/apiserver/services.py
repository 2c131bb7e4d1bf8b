"""Services: what the real server fills in, keeps across updates, and refuses. `addresses.py` hands out what is scarce.

The cluster has one network, of IPv4.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from hekla.api.kinds import Obj
from hekla.apiserver.invalid import Problem, duplicate, forbidden, invalid, required, unsupported

HEADLESS = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FAMILIES = ("IPv4", "IPv6")
_ADDRESS_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_ANY_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def has_address(spec: Obj) -> bool:
    """Whether a Service of this spec has an address of its own, given or still to be found."""
    return spec.get("type") != "ExternalName" and spec.get("clusterIP") != HEADLESS


def has_node_ports(spec: Obj) -> bool:
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts", True))
    return spec.get("type") == "NodePort"


def default_service(service: Obj) -> None:
    spec = service.setdefault("spec", {})
    type_ = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for field in ("clusterIP", "clusterIPs"):
        if field in spec and not spec[field]:
            del spec[field]
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if type_ != "ExternalName":
        _default_families(spec)
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if type_ in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if type_ == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port")
    service.setdefault("status", {"loadBalancer": {}})


def _default_families(spec: Obj) -> None:
    families = spec.get("ipFamilies") or []
    if _spans_families(spec):
        # parity: nobody knows where its endpoints are, so it may have any family.
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        if spec["ipFamilyPolicy"] == "RequireDualStack" and len(families) < 2:
            spec["ipFamilies"] = [*families, *(each for each in _FAMILIES if each not in families)]
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4"]


def _spans_families(spec: Obj) -> bool:
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def carry_service(new: Obj, old: Obj) -> None:
    """What an update leaves unsaid stays; what its new type has no use for goes."""
    spec, before = new.setdefault("spec", {}), old["spec"]
    type_ = spec.setdefault("type", "ClusterIP")
    if type_ == "ExternalName" and before["type"] != type_:
        for field in _ADDRESS_FIELDS:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if type_ not in ("NodePort", "LoadBalancer") and spec.get("externalTrafficPolicy") == before.get(
        "externalTrafficPolicy"
    ):
        spec.pop("externalTrafficPolicy", None)
    if type_ != "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)
    if type_ != "ExternalName" and before["type"] != "ExternalName":
        _carry_address(spec, before)
    _carry_node_ports(spec, before)


def _carry_address(spec: Obj, before: Obj) -> None:
    if not before.get("clusterIP"):
        return
    same_list = spec.get("clusterIPs") == before.get("clusterIPs")
    if spec.get("clusterIP") and same_list:
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif not spec.get("clusterIP") and (same_list or not spec.get("clusterIPs")):
        spec["clusterIP"], spec["clusterIPs"] = before["clusterIP"], before["clusterIPs"]


def _carry_node_ports(spec: Obj, before: Obj) -> None:
    known = {(port["protocol"], port["port"]): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        node_port = known.get((port.get("protocol", "TCP"), port.get("port")))
        if not node_port:
            continue
        if has_node_ports(spec):
            port.setdefault("nodePort", node_port)
        elif port.get("nodePort") == node_port:
            del port["nodePort"]


def validate_service(service: Obj) -> list[Problem]:
    spec = service.get("spec") or {}
    problems = _ports_problems(spec)
    if spec.get("type") not in _TYPES:
        problems.append(unsupported("spec.type", spec.get("type"), _TYPES))
    if spec.get("type") == "ExternalName":
        return problems + _external_problems(spec)
    return problems + _address_problems(spec) + _family_problems(spec)


def validate_service_update(new: Obj, old: Obj) -> list[Problem]:
    before, after = old["spec"], new["spec"]
    if "ExternalName" in (before["type"], after["type"]) or not before.get("clusterIP"):
        return []
    if _family_problems(after):
        # parity: those are told alone.
        return []
    if after.get("clusterIP") != before["clusterIP"]:
        return [invalid("spec.clusterIPs[0]", after.get("clusterIPs"), "may not change once set")]
    return []


def port_problems(port: Any, path: str) -> list[Problem]:
    if not port:
        return [required(path)]
    if not isinstance(port, int) or not 0 < port < 65536:
        return [invalid(path, port, "must be between 1 and 65535, inclusive")]
    return []


def _ports_problems(spec: Obj) -> list[Problem]:
    ports = spec.get("ports") or ()
    problems: list[Problem] = []
    if not ports and spec.get("clusterIP") != HEADLESS and spec.get("type") != "ExternalName":
        problems.append(required("spec.ports"))
    names: set[str] = set()
    places: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, name, place = f"spec.ports[{index}]", port.get("name"), (port["protocol"], port.get("port", 0))
        if len(ports) > 1 and not name:
            problems.append(required(f"{path}.name"))
        elif name in names:
            problems.append(duplicate(f"{path}.name", json.dumps(name)))
        problems += port_problems(place[1], f"{path}.port")
        if isinstance(port.get("targetPort"), int):
            problems += port_problems(port["targetPort"], f"{path}.targetPort")
        if port.get("nodePort") and spec.get("type") in ("ClusterIP", "ExternalName"):
            problems.append(forbidden(f"{path}.nodePort", f"may not be used when `type` is '{spec['type']}'"))
        if place in places:
            shown = {"Name": "", "Protocol": place[0], "AppProtocol": None, "Port": place[1], "TargetPort": 0}
            problems.append(duplicate(path, json.dumps({**shown, "NodePort": 0}, separators=(",", ":"))))
        names.add(name or "")
        places.add(place)
    return problems


def _external_problems(spec: Obj) -> list[Problem]:
    problems = [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    return problems if spec.get("externalName") else [*problems, required("spec.externalName")]


def _address_problems(spec: Obj) -> list[Problem]:
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs") or []
    if addresses and not address:
        return [invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")]
    if addresses and addresses[0] != address:
        return [invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")]
    if address == HEADLESS and spec.get("type") != "ClusterIP":
        why = f"may not be set to 'None' for {spec.get('type')} services"
        return [invalid("spec.clusterIPs[0]", HEADLESS, why)]
    if not address or addresses == [HEADLESS]:
        return []
    for index, each in enumerate(addresses):
        why = _not_an_address(each)
        if why:
            return [invalid(f"spec.clusterIPs[{index}]", each, why)]
    families = [ipaddress.ip_address(each).version for each in addresses]
    if len(set(families)) < len(families):
        return [invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")]
    if 6 in families:
        where = f"spec.clusterIPs[{families.index(6)}]"
        return [invalid(where, addresses, "IPv6 is not configured on this cluster")]
    if spec["ipFamilies"][0] == "IPv6":
        return [invalid("spec.clusterIPs[0]", addresses[0], "expected an IPv6 value as indicated by `ipFamilies[0]`")]
    return []


def _not_an_address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        parts = text.split(".")
        if len(parts) == 4 and all(part.isdecimal() and int(part) < 256 for part in parts):
            return "must not have leading 0s"
        return _ANY_ADDRESS
    return ""


def _family_problems(spec: Obj) -> list[Problem]:
    policy, families = spec["ipFamilyPolicy"], spec["ipFamilies"]
    if policy not in _POLICIES:
        return [unsupported("spec.ipFamilyPolicy", policy, _POLICIES)]
    strange = [unsupported(f"spec.ipFamilies[{n}]", f, _FAMILIES) for n, f in enumerate(families) if f not in _FAMILIES]
    if strange or _spans_families(spec):
        return strange
    problems = []
    if policy == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        problems.append(invalid("spec.ipFamilyPolicy", policy, why))
    if spec.get("clusterIP") and families[0] == "IPv6" and has_address(spec):
        return problems
    for index, family in enumerate(families):
        if family == "IPv6":
            problems.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    return problems
