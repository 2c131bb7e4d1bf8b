"""NetworkPolicies: who may speak to whom, and on which ports."""

from __future__ import annotations

from hekla.api.field import Problem, forbidden, invalid, required, unsupported
from hekla.api.field_rules import (
    Network,
    choice_or_absent_problems,
    network,
    network_problems,
    port_problems,
    target_port_problems,
)
from hekla.api.kinds import Obj
from hekla.api.selector_rules import selector_problems

_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")


def validate_network_policy(policy: Obj) -> list[Problem]:
    spec = policy.get("spec") or {}
    problems = selector_problems(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            problems += _rule_problems(rule, peers, f"spec.{direction}[{index}]")
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        return [*problems, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    return problems + [
        unsupported(f"spec.policyTypes[{index}]", each, _TYPES)
        for index, each in enumerate(types)
        if each not in _TYPES
    ]


def _rule_problems(rule: Obj, peers: str, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, port in enumerate(rule.get("ports") or ()):
        problems += _port_problems(port, f"{path}.ports[{index}]")
    for index, peer in enumerate(rule.get(peers) or ()):
        problems += _peer_problems(peer, f"{path}.{peers}[{index}]")
    return problems


def _port_problems(port: Obj, path: str) -> list[Problem]:
    problems = choice_or_absent_problems(port, "protocol", path, _PROTOCOLS)
    first, last, where = port.get("port"), port.get("endPort"), f"{path}.endPort"
    if first is not None:
        problems += target_port_problems(first, f"{path}.port")
    if last is None:
        return problems
    if first is None:
        return [*problems, invalid(where, last, "may not be specified when `port` is not specified")]
    if isinstance(first, str):
        return [*problems, invalid(where, last, "may not be specified when `port` is non-numeric")]
    if last < first:
        # parity: the beginning is shown, not the end.
        problems.append(invalid(where, first, "must be greater than or equal to `port`"))
    return problems + port_problems(last, where)


def _peer_problems(peer: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for field in ("podSelector", "namespaceSelector"):
        problems += selector_problems(peer.get(field), f"{path}.{field}")
    if "ipBlock" in peer:
        problems += _block_problems(peer["ipBlock"], f"{path}.ipBlock")
    if not peer:
        problems.append(required(path, "must specify a peer"))
    elif "ipBlock" in peer and len(peer) > 1:
        problems.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return problems


def _block_problems(block: Obj, path: str) -> list[Problem]:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [required(f"{path}.cidr")]
    whole, problems = network(cidr), network_problems(cidr, f"{path}.cidr")
    if whole is None:
        return problems
    for index, each in enumerate(block.get("except") or ()):
        where, part = f"{path}.except[{index}]", network(each)
        problems += network_problems(each, where)
        if part is not None and not _holds(whole, part):
            problems.append(invalid(where, each, "must be a strict subset of `cidr`"))
    return problems


def _holds(whole: Network, part: Network) -> bool:
    return part.network_address in whole and whole.prefixlen < part.prefixlen
