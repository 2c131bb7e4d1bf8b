"""Services: what the real server fills in and keeps across updates. `addresses.py` hands out what is scarce.

The cluster has one network, of IPv4.
"""

from __future__ import annotations

from hekla.api.kinds import Obj

HEADLESS = "None"
FAMILIES = ("IPv4", "IPv6")
_ADDRESS_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


def has_address(spec: Obj) -> bool:
    """Whether a Service of this spec has an address of its own, given or still to be found."""
    return spec.get("type") != "ExternalName" and spec.get("clusterIP") != HEADLESS


def has_node_ports(spec: Obj) -> bool:
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts", True))
    return spec.get("type") == "NodePort"


def reached_from_outside(spec: Obj) -> bool:
    if spec.get("type") == "ClusterIP":
        return bool(spec.get("externalIPs"))
    return spec.get("type") in ("NodePort", "LoadBalancer")


def is_asked_for_health(spec: Obj) -> bool:
    """Whether a load balancer asks on a port of its own which nodes have a pod."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def default_service(service: Obj) -> None:
    spec = service.setdefault("spec", {})
    type_ = spec["type"] = spec.get("type") or "ClusterIP"
    _default_affinity(spec)
    for field in ("clusterIP", "clusterIPs"):
        if field in spec and not spec[field]:
            del spec[field]
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if type_ != "ExternalName":
        _default_families(spec)
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if reached_from_outside(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if type_ == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port")
    service.setdefault("status", {"loadBalancer": {}})


def _default_affinity(spec: Obj) -> None:
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)


def _default_families(spec: Obj) -> None:
    families = spec.get("ipFamilies") or []
    if spans_families(spec):
        # parity: nobody knows where its endpoints are, so it may have any family.
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        if spec["ipFamilyPolicy"] == "RequireDualStack" and len(families) < 2:
            spec["ipFamilies"] = [*families, *(each for each in FAMILIES if each not in families)]
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4"]


def spans_families(spec: Obj) -> bool:
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def carry_service(new: Obj, old: Obj) -> None:
    """What an update leaves unsaid stays; what its new type has no use for goes."""
    spec, before = new.setdefault("spec", {}), old["spec"]
    type_ = spec["type"] = spec.get("type") or "ClusterIP"
    if type_ == "ExternalName" and before["type"] != type_:
        for field in _ADDRESS_FIELDS:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    for field, needed in (
        ("externalTrafficPolicy", reached_from_outside(spec)),
        ("healthCheckNodePort", is_asked_for_health(spec)),
        ("loadBalancerClass", type_ == "LoadBalancer"),
    ):
        if not needed and spec.get(field) == before.get(field):
            spec.pop(field, None)
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
