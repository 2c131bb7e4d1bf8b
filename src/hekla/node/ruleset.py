"""The rules of the pods' network as text for `nft`: who may connect to whom, and where Services lead. Pure.

Pods have no link to each other but through the switch, so what is not forwarded there does not arrive. Pods under the
same policies share one chain; a whole ruleset replaces the one before at once.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.meta import is_deleting, labels_of, namespace_of
from hekla.api.pod_ports import named_port, target_port
from hekla.api.selector import label_selector_from

TABLE = "hekla"
NO_RULES = ""
_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


@dataclass(frozen=True)
class Network:
    """What the rules follow from. `pods` are those with an address; `namespaces` are labels by name."""

    pods: tuple[Obj, ...] = ()
    services: tuple[Obj, ...] = ()
    policies: tuple[Obj, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] | None = None


def ruleset(network: Network) -> str:
    """The whole table, replacing the one before; empty text where there is nothing to rule."""
    services = _services(network)
    hairpin = _hairpin(network) if services else []
    forward, chains = _policies(network)
    if not services and not forward:
        return ""
    blocks = [
        _chain("services", "type nat hook prerouting priority dstnat; policy accept;", services),
        _chain("hairpin", "type nat hook postrouting priority srcnat; policy accept;", hairpin),
        _chain("forward", "type filter hook forward priority filter; policy accept;", forward),
        *(_chain(name, "", rules) for name, rules in chains.items()),
    ]
    # A chain must be there before a rule leads to it.
    return f"{clearing()}table inet {TABLE} {{\n{''.join(reversed(blocks))}}}\n"


def clearing() -> str:
    """What removes the table, whether it is there or not."""
    return f"table inet {TABLE}\ndelete table inet {TABLE}\n"


def rules_id(text: str) -> str:
    """A short name for a ruleset, by which the switch says what is in force."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else NO_RULES


def has_cluster_address(service: Obj) -> bool:
    return _is_address((service.get("spec") or {}).get("clusterIP"))


def governs_ingress(policy: Obj) -> bool:
    return "Ingress" in (policy["spec"].get("policyTypes") or ["Ingress"])


def governs_egress(policy: Obj) -> bool:
    return "Egress" in (policy["spec"].get("policyTypes") or []) or bool(policy["spec"].get("egress"))


def _services(network: Network) -> list[str]:
    rules = []
    for service in network.services:
        spec = service.get("spec") or {}
        if not has_cluster_address(service):
            continue
        address = spec["clusterIP"]
        behind = [pod for pod in network.pods if _is_behind(pod, service)]
        for port in spec.get("ports") or ():
            ends = [(address_of(pod), number) for pod in behind if (number := target_port(pod, port)) is not None]
            if ends:
                rules.append(_leads_to(spec, address, port, sorted(ends)))
    return rules


def _leads_to(spec: Obj, address: str, port: Obj, ends: list[tuple[str, int]]) -> str:
    protocol = _PROTOCOLS[str(port.get("protocol") or "TCP")]
    sticky = spec.get("sessionAffinity") == "ClientIP"
    choice = f"{'jhash ip saddr' if sticky else 'numgen random'} mod {len(ends)}"
    table = ", ".join(f"{index} : {end} . {number}" for index, (end, number) in enumerate(ends))
    return f"ip daddr {address} {protocol} dport {port['port']} dnat ip to {choice} map {{ {table} }}"


def _hairpin(network: Network) -> list[str]:
    """A pod that reaches itself through a Service: the answer must come back the same way."""
    pairs = sorted(f"{address_of(pod)} . {address_of(pod)}" for pod in network.pods)
    return [f"ip saddr . ip daddr {{ {', '.join(pairs)} }} masquerade"] if pairs else []


def _policies(network: Network) -> tuple[list[str], dict[str, list[str]]]:
    """The rules that send a protected pod's traffic to its chain, and the chains."""
    chains: dict[tuple[str, ...], str] = {}
    members: list[str] = []
    for pod in sorted(network.pods, key=address_of):
        over = [policy for policy in network.policies if governs_ingress(policy) and _selects(policy, pod)]
        if over:
            rules = (*sorted(set(_ingress(network, over, pod))), "drop")
            name = chains.setdefault(rules, f"policies-{len(chains)}")
            members.append(f"{address_of(pod)} : jump {name}")
    if not members:
        return [], {}
    forward = ["ct state established,related accept", f"ip daddr vmap {{ {', '.join(members)} }}"]
    return forward, {name: list(rules) for rules, name in chains.items()}


def _ingress(network: Network, policies: list[Obj], pod: Obj) -> Iterable[str]:
    for policy in policies:
        for rule in policy["spec"].get("ingress") or ():
            sources = [f"ip saddr {each}" for each in _sources(network, policy, rule)] if rule.get("from") else [""]
            ports = list(_ports(rule, pod)) if rule.get("ports") else [""]
            for source in sources:
                for port in ports:
                    yield " ".join(part for part in (source, port, "accept") if part)


def _sources(network: Network, policy: Obj, rule: Obj) -> Iterable[str]:
    addresses: set[str] = set()
    for peer in rule["from"]:
        if peer.get("ipBlock"):
            block = peer["ipBlock"]
            without = " ".join(f"ip saddr != {_network(each)}" for each in block.get("except") or ())
            yield f"{_network(block['cidr'])} {without}".strip()
        else:
            addresses.update(address_of(pod) for pod in network.pods if _is_peer(network, policy, peer, pod))
    if addresses:
        yield f"{{ {', '.join(sorted(addresses))} }}"


def _ports(rule: Obj, pod: Obj) -> Iterable[str]:
    for port in rule["ports"]:
        protocol = _PROTOCOLS[str(port.get("protocol") or "TCP")]
        wanted = port.get("port")
        if wanted is None:
            yield f"meta l4proto {protocol}"
            continue
        number = wanted if isinstance(wanted, int) else named_port(pod, wanted, protocol.upper())
        if number is not None:
            end = port.get("endPort")
            yield f"{protocol} dport {f'{number}-{end}' if end else number}"


def _is_peer(network: Network, policy: Obj, peer: Obj, pod: Obj) -> bool:
    if peer.get("namespaceSelector") is not None:
        labels = dict((network.namespaces or {}).get(namespace_of(pod)) or {})
        if not _matches(peer["namespaceSelector"], labels):
            return False
    elif namespace_of(pod) != namespace_of(policy):
        return False
    return peer.get("podSelector") is None or _matches(peer["podSelector"], labels_of(pod))


def _selects(policy: Obj, pod: Obj) -> bool:
    same = namespace_of(policy) == namespace_of(pod)
    return same and _matches(policy["spec"].get("podSelector") or {}, labels_of(pod))


def _matches(selector: Obj, labels: Mapping[str, str]) -> bool:
    """An empty selector is everything."""
    found = label_selector_from(selector)
    return found is None or found.matches(labels)


def _is_behind(pod: Obj, service: Obj) -> bool:
    spec = service["spec"]
    selector = spec.get("selector") or {}
    if not selector or namespace_of(pod) != namespace_of(service) or not selector.items() <= labels_of(pod).items():
        return False
    if spec.get("publishNotReadyAddresses"):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not is_deleting(pod) and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def address_of(pod: Obj) -> str:
    return str(pod["status"]["podIP"])


def _is_address(text: Any) -> bool:
    try:
        return isinstance(ipaddress.ip_address(str(text)), ipaddress.IPv4Address)
    except ValueError:
        return False


def _network(text: str) -> str:
    """As text that nft reads as a network and nothing else."""
    return str(ipaddress.ip_network(text, strict=False))


def _chain(name: str, head: str, rules: list[str]) -> str:
    lines = [line for line in (head, *rules) if line]
    return f"  chain {name} {{\n" + "".join(f"    {line}\n" for line in lines) + "  }\n"
