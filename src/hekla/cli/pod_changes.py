"""A pod's spec as it might be: it accepts more nodes, or asks for less. Pure; what is given stays as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hekla.api.kinds import Obj
from hekla.api.pod_resources import Amount, pod_requests
from hekla.api.quantity import parse

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def with_toleration(spec: Obj, toleration: Obj) -> Obj:
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), toleration]}


def without_selector(spec: Obj, keys: Collection[str]) -> Obj:
    left = {key: value for key, value in (spec.get("nodeSelector") or {}).items() if key not in keys}
    return {**spec, "nodeSelector": left}


def required_affinity(spec: Obj) -> Obj:
    found: Obj = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return found


def without_required_affinity(spec: Obj) -> Obj:
    if not required_affinity(spec):
        return spec
    affinity = spec["affinity"]
    left = {key: value for key, value in affinity["nodeAffinity"].items() if key != _REQUIRED}
    return {**spec, "affinity": {**affinity, "nodeAffinity": left}}


def with_at_most(spec: Obj, most: Mapping[str, str]) -> Obj:
    """A pod spec that asks for no more than this of these resources, its largest containers less than before.

    As it was where that takes more than making one container smaller.
    """
    asked, smaller = pod_requests(spec), spec
    for name, text in most.items():
        if name not in asked or asked[name].value <= parse(text):
            continue
        sizes = [parse(_request(container, name)) for container in spec["containers"]]
        at = sizes.index(max(sizes))
        left = sizes[at] - (asked[name].value - parse(text))
        if left <= 0:
            return spec
        containers = list(smaller["containers"])
        containers[at] = _asking_for(containers[at], name, str(Amount(left, binary=text.endswith("i"))))
        smaller = {**smaller, "containers": containers}
    return smaller


def _request(container: Obj, name: str) -> str:
    return str(((container.get("resources") or {}).get("requests") or {}).get(name) or "0")


def _asking_for(container: Obj, name: str, amount: str) -> Obj:
    """Of what cannot be overcommitted a container's limit is its request."""
    resources = container["resources"]
    changed = {"requests": {**resources["requests"], name: amount}}
    if "/" in name:
        changed["limits"] = {**(resources.get("limits") or {}), name: amount}
    return {**container, "resources": {**resources, **changed}}
