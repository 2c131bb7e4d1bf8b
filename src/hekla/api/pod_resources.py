"""What a pod asks for: the effective requests and limits of a pod spec, and its ResourceQuota usage.

The rules are Kubernetes': containers add up, restartable init containers (sidecars) run beside them, an ordinary init
container needs its own plus the sidecars started before it, overhead comes on top. Requests are not derived from
limits here: in a stored pod the API server has already done so, and in a Job's template upstream does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from hekla.api.kinds import Obj
from hekla.api.quantity import format_binary, format_decimal, parse

_NATIVE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity that remembers its family: sums of `Mi` stay binary, sums of `m` stay decimal."""

    value: Decimal
    binary: bool = False

    @classmethod
    def of(cls, text: str | int | float) -> Amount:
        return cls(parse(text), str(text).endswith("i"))

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.value + other.value, self.binary if self.value else other.binary)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.value - other.value, self.binary)

    def times(self, count: int) -> Amount:
        return Amount(self.value * count, self.binary)

    def __str__(self) -> str:
        return format_binary(self.value) if self.binary else format_decimal(self.value)


Amounts = dict[str, Amount]


def pod_requests(spec: Obj) -> Amounts:
    """What a pod of this spec holds while it starts and runs, by resource name."""
    return _effective(spec, "requests")


def pod_limits(spec: Obj) -> Amounts:
    return _effective(spec, "limits")


def quota_usage(spec: Obj) -> Amounts:
    """The usage one pod of this spec has in a ResourceQuota, with the bare names of extended resources added."""
    one = Amount(Decimal(1))
    usage: Amounts = {"count/pods": one, "pods": one}
    for name, amount in pod_requests(spec).items():
        if name in _NATIVE or name.startswith("hugepages-") or _is_extended(name):
            usage[name] = amount
            usage[f"requests.{name}"] = amount
    for name, amount in pod_limits(spec).items():
        if name in _NATIVE:
            usage[f"limits.{name}"] = amount
    return usage


def add(into: Amounts, more: Mapping[str, Amount], times: int = 1) -> None:
    for name, amount in more.items():
        extra = amount.times(times)
        into[name] = into[name] + extra if name in into else extra


def as_text(amounts: Mapping[str, Amount]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def _effective(spec: Obj, which: str) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, _amounts(container, which))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _amounts(container, which)
        if container.get("restartPolicy") == "Always":
            add(sidecars, own)
            _raise_to(largest, sidecars)
        else:
            needed = dict(sidecars)
            add(needed, own)
            _raise_to(largest, needed)
    add(total, sidecars)
    _raise_to(total, largest)
    for name, amount in _parsed((spec.get("resources") or {}).get(which)).items():
        total[name] = amount
    overhead = _parsed(spec.get("overhead"))
    if which == "requests":
        add(total, overhead)
    else:
        add(total, {name: amount for name, amount in overhead.items() if name in total})
    return total


def _raise_to(into: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if name not in into or into[name].value < amount.value:
            into[name] = amount


def _amounts(container: Obj, which: str) -> Amounts:
    return _parsed((container.get("resources") or {}).get(which))


def _parsed(resources: Mapping[str, str | int | float] | None) -> Amounts:
    return {name: Amount.of(text) for name, text in (resources or {}).items()}


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))
