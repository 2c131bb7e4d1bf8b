"""Whether pods are where they may be: Kubernetes' rules, read from objects of the API and from nothing of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

Obj = Mapping[str, Any]
_CARDS, _CARD_MEMORY = "volcano.sh/gpu-number", "volcano.sh/gpu-memory"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SUFFIXES = {"m": Fraction(1, 1000), "": Fraction(1), "Mi": Fraction(1 << 20), "Gi": Fraction(1 << 30)}


def violations(nodes: Sequence[Obj], pods: Sequence[Obj]) -> list[str]:
    """Every rule that the placement of these pods breaks; pods without a node break none."""
    named = {node["metadata"]["name"]: node for node in nodes}
    placed = [(pod, named[pod["spec"]["nodeName"]]) for pod in pods if pod["spec"].get("nodeName")]
    found = [*_overfull(named, placed), *_overfull_cards(named, placed)]
    for pod, node in placed:
        name = f"{pod['metadata']['name']} on {node['metadata']['name']}"
        found += [f"{name}: {rule}" for rule in _against_node(pod, node)]
        found += [f"{name}: {rule}" for rule in _against_company(pod, node, nodes, placed)]
    return found


def amount(text: str) -> Fraction:
    digits = text.rstrip("mKMGi")
    return Fraction(digits) * _SUFFIXES[text[len(digits) :]]


def requests(pod: Obj) -> dict[str, Fraction]:
    """What its containers ask for together, or the hungriest of those that run before them, and a place."""
    running: dict[str, Fraction] = {}
    for container in pod["spec"]["containers"]:
        for name, asked in _asked(container).items():
            running[name] = running.get(name, Fraction(0)) + asked
    for container in pod["spec"].get("initContainers") or ():
        for name, asked in _asked(container).items():
            running[name] = max(running.get(name, Fraction(0)), asked)
    return {**running, "pods": Fraction(1)}


def _asked(container: Obj) -> dict[str, Fraction]:
    given = (container.get("resources") or {}).get("requests") or {}
    return {name: amount(text) for name, text in given.items()}


def _overfull(named: Mapping[str, Obj], placed: Sequence[tuple[Obj, Obj]]) -> Iterator[str]:
    for name, node in named.items():
        here = [pod for pod, at in placed if at is node]
        used: dict[str, Fraction] = {}
        for pod in here:
            for resource, asked in requests(pod).items():
                used[resource] = used.get(resource, Fraction(0)) + asked
        for resource, held in used.items():
            if held > amount(node["status"]["allocatable"].get(resource, "0")):
                yield f"{name} holds {float(held)} {resource}"
        ports = Counter(port for pod in here for port in _host_ports(pod))
        yield from (f"{name} has port {port} taken {times} times" for port, times in ports.items() if times > 1)


def _overfull_cards(named: Mapping[str, Obj], placed: Sequence[tuple[Obj, Obj]]) -> Iterator[str]:
    for name, node in named.items():
        has = {resource: amount(text) for resource, text in node["status"]["allocatable"].items()}
        number = int(has.get(_CARDS, 0))
        size = has.get(_CARD_MEMORY, Fraction(0)) // number if number else Fraction(0)
        ill = node["metadata"].get("annotations", {}).get("volcano.sh/gpu-unhealthy-ids", "").split(",")
        used: dict[str, Fraction] = {}
        for pod in (pod for pod, at in placed if at is node):
            asked, told = requests(pod), pod["metadata"].get("annotations", {}).get("volcano.sh/gpu-index", "")
            cards = told.split(",") if told else []
            if cards and len(cards) != asked.get(_CARDS, 1):
                yield f"{pod['metadata']['name']} has the cards {told}"
            for card in cards:
                used[card] = used.get(card, Fraction(0)) + (size if _CARDS in asked else asked[_CARD_MEMORY])
                if card in ill or int(card) >= number:
                    yield f"{pod['metadata']['name']} has card {card} of {name}"
        yield from (f"card {card} of {name} holds {float(held)}" for card, held in used.items() if held > size)


def _host_ports(pod: Obj) -> Iterator[int]:
    for container in pod["spec"]["containers"]:
        yield from (port["hostPort"] for port in container.get("ports") or () if port.get("hostPort"))


def _against_node(pod: Obj, node: Obj) -> Iterator[str]:
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if node["spec"].get("unschedulable") and not any(map(_tolerates_cordon, spec.get("tolerations") or ())):
        yield "cordoned"
    for taint in node["spec"].get("taints") or ():
        tolerated = any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ())
        if taint["effect"] != "PreferNoSchedule" and not tolerated:
            yield f"taint {taint['key']}"
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        yield "node selector"
    wanted = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if wanted and not any(_matches(labels, term.get("matchExpressions") or ()) for term in wanted["nodeSelectorTerms"]):
        yield "node affinity"


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")


def _tolerates_cordon(toleration: Obj) -> bool:
    return _tolerates(toleration, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})


def _matches(labels: Mapping[str, str], expressions: Sequence[Obj]) -> bool:
    for one in expressions:
        value, values = labels.get(one["key"]), one.get("values") or ()
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[one["operator"]]
        if not holds:
            return False
    return True


def _selected(pods: Sequence[tuple[Obj, Obj]], selector: Obj) -> list[tuple[Obj, Obj]]:
    wanted = selector["matchLabels"].items()
    return [(pod, node) for pod, node in pods if wanted <= (pod["metadata"].get("labels") or {}).items()]


def _against_company(pod: Obj, node: Obj, nodes: Sequence[Obj], placed: Sequence[tuple[Obj, Obj]]) -> Iterator[str]:
    spec, others = pod["spec"], [pair for pair in placed if pair[0] is not pod]
    affinity = spec.get("affinity") or {}
    for term in (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ():
        domain = node["metadata"]["labels"].get(term["topologyKey"])
        near = [at for _, at in _selected(others, term["labelSelector"]) if _label(at, term) == domain]
        if near and domain is not None:
            yield f"anti-affinity within {domain}"
    for term in (affinity.get("podAffinity") or {}).get(REQUIRED) or ():
        domain = node["metadata"]["labels"].get(term["topologyKey"])
        friends = [pair for pair in _selected(others, term["labelSelector"]) if _label(pair[1], term) is not None]
        # One that would be its own friend may have been the first of them.
        first = _selected([(pod, node)], term["labelSelector"])
        if not first and not any(_label(at, term) == domain for _, at in friends):
            yield f"affinity to nobody within {domain}"
    for rule in spec.get("topologySpreadConstraints") or ():
        if rule["whenUnsatisfiable"] == "DoNotSchedule":
            domains = {_label(at, rule) for at in nodes if _label(at, rule) is not None}
            counts = Counter(_label(at, rule) for _, at in _selected(placed, rule["labelSelector"]))
            if counts[_label(node, rule)] - min(counts[domain] for domain in domains) > rule["maxSkew"]:
                yield f"spread over {rule['topologyKey']}"


def _label(node: Obj, term: Obj) -> str | None:
    return (node["metadata"].get("labels") or {}).get(term["topologyKey"])
