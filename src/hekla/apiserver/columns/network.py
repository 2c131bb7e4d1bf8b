"""Services, what is behind them, and who may talk to whom."""

from __future__ import annotations

from datetime import datetime

from hekla.api.kinds import Obj
from hekla.apiserver.columns.cells import AGE, NAME, NONE, UNSET, at, first_few, labels_text, selector_text, text


def _external_address(service: Obj, now: datetime) -> str:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    balancers = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    given = [str(each.get("ip") or each.get("hostname")) for each in balancers] if _is_balanced(spec) else []
    return ",".join([*given, *spec.get("externalIPs", ())]) or ("<pending>" if _is_balanced(spec) else NONE)


def _is_balanced(spec: Obj) -> bool:
    return bool(spec.get("type") == "LoadBalancer")


def _service_ports(service: Obj, now: datetime) -> str:
    words = []
    for port in (service.get("spec") or {}).get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        words.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(words) or NONE


def _endpoints(endpoints: Obj, now: datetime) -> str:
    words: list[str] = []
    for subset in endpoints.get("subsets") or ():
        hosts = [each.get("ip", "") for each in subset.get("addresses") or ()]
        ports = [each.get("port", 0) for each in subset.get("ports") or ()]
        words += [_with_port(host, port) for port in ports for host in hosts] if ports else hosts
    return first_few(words) or NONE


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _slice_ports(slice_: Obj, now: datetime) -> str:
    ports = slice_.get("ports") or ()
    return first_few([str(each.get("port") or each.get("name") or "*") for each in ports]) or UNSET


def _slice_addresses(slice_: Obj, now: datetime) -> str:
    listed = slice_.get("endpoints") or ()
    return first_few([address for each in listed for address in each.get("addresses") or ()]) or UNSET


NETWORK = {
    "/services": [
        NAME,
        text("Type", at("spec", "type")),
        text("Cluster-IP", at("spec", "clusterIP")),
        text("External-IP", _external_address),
        text("Port(s)", _service_ports),
        AGE,
        text("Selector", lambda obj, now: labels_text((obj.get("spec") or {}).get("selector")), 1),
    ],
    "/endpoints": [NAME, text("Endpoints", _endpoints), AGE],
    "discovery.k8s.io/endpointslices": [
        NAME,
        text("AddressType", at("addressType", default="")),
        text("Ports", _slice_ports),
        text("Endpoints", _slice_addresses),
        AGE,
    ],
    "networking.k8s.io/networkpolicies": [
        NAME,
        text("Pod-Selector", lambda obj, now: selector_text((obj.get("spec") or {}).get("podSelector"))),
        AGE,
    ],
}
