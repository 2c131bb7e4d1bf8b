"""A LimitRange: what containers are given that ask for nothing, and how much containers, pods and claims may ask for.

What is against it is told in Kubernetes' words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hekla.api.kinds import Obj
from hekla.api.pod_resources import Amount, Amounts, pod_limits, pod_requests
from hekla.api.quantity import canonical

_CONTAINER, _POD, _CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_TOLD = "kubernetes.io/limit-ranger"


@dataclass(frozen=True, slots=True)
class Limit:
    """Bounds of one type of object, by the name of the resource."""

    type: str
    least: Mapping[str, Amount] = field(default_factory=dict)
    most: Mapping[str, Amount] = field(default_factory=dict)
    ratio: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LimitRange:
    """`requests` and `limits` are for containers that name none."""

    limits: tuple[Limit, ...]
    default_requests: Mapping[str, str]
    default_limits: Mapping[str, str]


def read_limit_range(limit_range: Obj) -> LimitRange:
    items = (limit_range.get("spec") or {}).get("limits") or []
    limits = [
        Limit(item["type"], *(_amounts(item.get(bound)) for bound in ("min", "max", "maxLimitRequestRatio")))
        for item in items
    ]
    of_containers = [item for item in items if item["type"] == _CONTAINER]
    requests, given = (
        {name: canonical(text) for item in of_containers for name, text in (item.get(which) or {}).items()}
        for which in ("defaultRequest", "default")
    )
    return LimitRange(tuple(limits), requests, given)


def fill_in(limit_range: LimitRange, pod: Obj) -> None:
    """Give the containers what they do not ask for, and note in the pod what that was."""
    spec, told = pod["spec"], list[str]()
    for which, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(which) or ():
            told += _fill_in_container(limit_range, container, title)
    if told:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, _TOLD: f"LimitRanger plugin set: {'; '.join(told)}"}


def pod_objections(limit_range: LimitRange, pod: Obj) -> list[str]:
    return [why for limit in limit_range.limits for why in _pod_objections(limit, pod["spec"])]


def claim_objections(limit_range: LimitRange, claim: Obj) -> list[str]:
    requests = _amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    found: list[str | None] = []
    for limit in limit_range.limits:
        if limit.type == _CLAIM:
            found += [_too_little(limit, name, requests, {}) for name in sorted(limit.least)]
            found += [_too_much(limit, name, "request", requests, {}) for name in sorted(limit.most)]
    return [why for why in found if why is not None]


def _fill_in_container(limit_range: LimitRange, container: Obj, title: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for which, word, defaults in (
        ("requests", "request", limit_range.default_requests),
        ("limits", "limit", limit_range.default_limits),
    ):
        lacking = {name: text for name, text in defaults.items() if name not in (resources.get(which) or {})}
        if lacking:
            resources[which] = {**(resources.get(which) or {}), **lacking}
            container["resources"] = resources
            yield f"{', '.join(sorted(lacking))} {word} for {title} {container.get('name', '')}"


def _pod_objections(limit: Limit, spec: Obj) -> list[str]:
    if limit.type == _CONTAINER:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        asked = [container.get("resources") or {} for container in containers]
        pairs = [(_amounts(each.get("requests")), _amounts(each.get("limits"))) for each in asked]
    elif limit.type == _POD:
        # What the node adds to every pod is not the pod's wish.
        own = {name: value for name, value in spec.items() if name != "overhead"}
        pairs = [(pod_requests(own), pod_limits(own))]
    else:
        pairs = []
    return [why for requests, limits in pairs for why in _objections(limit, requests, limits)]


def _objections(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    found: list[str | None] = [_too_little(limit, name, requests, limits) for name in sorted(limit.least)]
    found += [_too_much(limit, name, "limit", limits, requests) for name in sorted(limit.most)]
    found += [_too_far_apart(limit, name, requests, limits) for name in sorted(limit.ratio)]
    yield from (why for why in found if why is not None)


def _too_little(limit: Limit, name: str, requests: Amounts, limits: Amounts) -> str | None:
    least = limit.least[name]
    told = f"minimum {name} usage per {limit.type} is {least}"
    if name not in requests:
        return f"{told}.  No request is specified"
    for word, amounts in (("request", requests), ("limit", limits)):
        if name in amounts and amounts[name].value < least.value:
            return f"{told}, but {word} is {amounts[name]}"
    return None


def _too_much(limit: Limit, name: str, word: str, first: Amounts, second: Amounts) -> str | None:
    """The first must be there: of a pod or container its limits, of a claim its requests."""
    most = limit.most[name]
    told = f"maximum {name} usage per {limit.type} is {most}"
    if name not in first:
        return f"{told}.  No {word} is specified"
    for each, amounts in ((word, first), ("request", second)):
        if name in amounts and amounts[name].value > most.value:
            return f"{told}, but {each} is {amounts[name]}"
    return None


def _too_far_apart(limit: Limit, name: str, requests: Amounts, limits: Amounts) -> str | None:
    ratio = limit.ratio[name]
    told = f"{name} max limit to request ratio per {limit.type} is {ratio}, but"
    for word, amounts in (("request", requests), ("limit", limits)):
        if name not in amounts or not amounts[name].value:
            return f"{told} no {word} is specified or {word} is 0"
    found = float(limits[name].value) / float(requests[name].value)
    return f"{told} provided ratio is {found:f}" if found > float(ratio.value) else None


def _amounts(given: Mapping[str, str] | None) -> Amounts:
    return {name: Amount.of(text) for name, text in (given or {}).items()}


def joined(objections: Iterable[str]) -> str:
    """Several in brackets, each once."""
    different = list(dict.fromkeys(objections))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"
