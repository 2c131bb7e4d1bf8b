"""Services: what they must say, and what of one that is there may not change."""

from __future__ import annotations

import ipaddress
import json

from hekla.api.field import Problem, duplicate, forbidden, invalid, required, unsupported
from hekla.api.field_rules import (
    address_problems,
    choice_or_absent_problems,
    choice_problems,
    label_map_problems,
    network_problems,
    port_problems,
    qualified_field_problems,
    subdomain_field_problems,
    target_port_problems,
)
from hekla.api.kinds import Obj
from hekla.api.names import label_problems
from hekla.apiserver.services import (
    FAMILIES,
    HEADLESS,
    has_address,
    is_asked_for_health,
    reached_from_outside,
    spans_families,
)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TRAFFIC = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_A_DAY = 86400
_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}
# parity: one of them is told with a capital letter.
_OF_BALANCERS = {
    "loadBalancerSourceRanges": "LoadBalancerSourceRanges",
    "loadBalancerClass": "loadBalancerClass",
    "allocateLoadBalancerNodePorts": "allocateLoadBalancerNodePorts",
}


def validate_service(service: Obj) -> list[Problem]:
    spec = service.get("spec") or {}
    problems = _ports_problems(spec) + label_map_problems(spec.get("selector") or {}, "spec.selector")
    problems += _affinity_problems(spec) + _traffic_problems(spec) + _balancer_problems(spec)
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


def _ports_problems(spec: Obj) -> list[Problem]:
    ports = spec.get("ports") or ()
    problems: list[Problem] = []
    if not ports and spec.get("clusterIP") != HEADLESS and spec.get("type") != "ExternalName":
        problems.append(required("spec.ports"))
    names: set[str] = set()
    places: set[tuple[str, int]] = set()
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, place = f"spec.ports[{index}]", (port["protocol"], port.get("port", 0))
        problems += _port_name_problems(port, f"{path}.name", names, needed=len(ports) > 1)
        problems += port_problems(place[1], f"{path}.port")
        problems += choice_problems(port, "protocol", path, _PROTOCOLS)
        problems += target_port_problems(port.get("targetPort"), f"{path}.targetPort")
        if "appProtocol" in port:
            problems += qualified_field_problems(port["appProtocol"], f"{path}.appProtocol")
        if port.get("nodePort") and spec.get("type") == "ClusterIP":
            problems.append(forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if place in places:
            shown = {"Name": "", "Protocol": place[0], "AppProtocol": None, "Port": place[1], "TargetPort": 0}
            problems.append(duplicate(path, json.dumps({**shown, "NodePort": 0}, separators=(",", ":"))))
        if port.get("nodePort"):
            if (port["protocol"], port["nodePort"]) in taken:
                problems.append(duplicate(f"{path}.nodePort", str(port["nodePort"])))
            taken.add((port["protocol"], port["nodePort"]))
        places.add(place)
    return problems


def _port_name_problems(port: Obj, path: str, names: set[str], *, needed: bool) -> list[Problem]:
    name = port.get("name") or ""
    if not name:
        return [required(path)] if needed else []
    problems = [invalid(path, name, why) for why in label_problems(name)]
    if name in names:
        problems.append(duplicate(path, json.dumps(name)))
    names.add(name)
    return problems


def _affinity_problems(spec: Obj) -> list[Problem]:
    problems = choice_problems(spec, "sessionAffinity", "spec", ("ClientIP", "None"))
    if spec["sessionAffinity"] != "ClientIP":
        return problems
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if not 0 < seconds <= _A_DAY:
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        problems.append(invalid(path, seconds, f"must be greater than 0 and less than {_A_DAY}"))
    return problems


def _traffic_problems(spec: Obj) -> list[Problem]:
    """Where what comes in may go."""
    problems: list[Problem] = []
    for index, address in enumerate(spec.get("externalIPs") or ()):
        problems += _outer_address_problems(address, f"spec.externalIPs[{index}]")
    if reached_from_outside(spec):
        problems += choice_or_absent_problems(spec, "externalTrafficPolicy", "spec", _TRAFFIC)
    elif spec.get("externalTrafficPolicy"):
        why = "may only be set for externally-accessible services"
        problems.append(invalid("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], why))
    if spec.get("type") != "ExternalName":
        problems += choice_or_absent_problems(spec, "internalTrafficPolicy", "spec", _TRAFFIC)
    return problems + choice_or_absent_problems(spec, "trafficDistribution", "spec", _DISTRIBUTIONS)


def _outer_address_problems(text: str, path: str) -> list[Problem]:
    problems = address_problems(text, path)
    if problems:
        return problems
    address = ipaddress.ip_address(text)
    if address.is_unspecified:
        why = f"may not be unspecified ({text})"
    elif address.is_loopback:
        why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    elif address.is_link_local:
        why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    elif address in _LOCAL_MULTICAST[address.version]:
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    else:
        return []
    return [invalid(path, text, why)]


def _balancer_problems(spec: Obj) -> list[Problem]:
    """What only a load balancer has."""
    problems: list[Problem] = []
    if spec.get("type") == "LoadBalancer":
        for index, each in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            # parity: blanks around them are read over.
            problems += network_problems(each.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
        if spec.get("loadBalancerClass"):
            problems += qualified_field_problems(spec["loadBalancerClass"], "spec.loadBalancerClass")
    else:
        given = [told for field, told in _OF_BALANCERS.items() if spec.get(field) is not None]
        problems += [forbidden(f"spec.{told}", "may only be used when `type` is 'LoadBalancer'") for told in given]
    if spec.get("healthCheckNodePort") and not is_asked_for_health(spec):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        problems.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], why))
    return problems


def _external_problems(spec: Obj) -> list[Problem]:
    problems = [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    return problems + (subdomain_field_problems(name, "spec.externalName") if name else [required("spec.externalName")])


def _address_problems(spec: Obj) -> list[Problem]:
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs") or []
    if addresses and not address:
        return [invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")]
    if addresses and addresses[0] != address:
        return [invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")]
    if address == HEADLESS and spec.get("type") in ("NodePort", "LoadBalancer"):
        why = f"may not be set to 'None' for {spec.get('type')} services"
        return [invalid("spec.clusterIPs[0]", HEADLESS, why)]
    if not address or addresses == [HEADLESS]:
        return []
    for index, each in enumerate(addresses):
        problems = address_problems(each, f"spec.clusterIPs[{index}]")
        if problems:
            return problems
    families = [ipaddress.ip_address(each).version for each in addresses]
    if len(set(families)) < len(families):
        return [invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")]
    if 6 in families:
        where = f"spec.clusterIPs[{families.index(6)}]"
        return [invalid(where, addresses, "IPv6 is not configured on this cluster")]
    if spec["ipFamilies"][0] == "IPv6":
        return [invalid("spec.clusterIPs[0]", addresses[0], "expected an IPv6 value as indicated by `ipFamilies[0]`")]
    return []


def _family_problems(spec: Obj) -> list[Problem]:
    policy, families = spec["ipFamilyPolicy"], spec["ipFamilies"]
    if policy not in _POLICIES:
        return [unsupported("spec.ipFamilyPolicy", policy, _POLICIES)]
    strange = [unsupported(f"spec.ipFamilies[{n}]", f, FAMILIES) for n, f in enumerate(families) if f not in FAMILIES]
    if strange or spans_families(spec):
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
