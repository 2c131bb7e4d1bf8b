"""How resources are added and compared.

CPU and devices are counted in thousandths, memory in bytes, pods one by one: so sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Amounts = dict[str, float]

TOLERANCE = 0.1  # what is lacking by less is not lacking
PODS = "pods"
BASIC = ("cpu", "memory")
_SUFFIXES = {"Gi": Fraction(1 << 30), "Mi": Fraction(1 << 20), "Ki": Fraction(1 << 10), "m": Fraction(1, 1000)}


def read(given: Mapping[str, Any] | None) -> Amounts:
    """A resource list. What only quotas count, and what is no resource of nodes, is left out."""
    found: Amounts = dict.fromkeys(BASIC, 0.0)
    for name, text in (given or {}).items():
        counted_elsewhere = name.startswith(("requests.", "count/"))
        if not counted_elsewhere and (name in (*BASIC, PODS) or "/" in name):
            found[name] = _amount(name, str(text))
    return found


def _amount(name: str, text: str) -> float:
    suffix = next((suffix for suffix in _SUFFIXES if text.endswith(suffix)), "")
    value = Fraction(text.removesuffix(suffix)) * _SUFFIXES.get(suffix, 1)
    if name not in ("memory", PODS):
        value *= 1000
    return float(-(-value.numerator // value.denominator))


def nothing() -> Amounts:
    return read(None)


def plus(one: Amounts, other: Amounts, times: float = 1.0) -> Amounts:
    return {name: one.get(name, 0.0) + times * other.get(name, 0.0) for name in {**one, **other}}


def minus(one: Amounts, other: Amounts) -> Amounts:
    return plus(one, other, -1.0)


def total(each: Iterable[Amounts]) -> Amounts:
    found = nothing()
    for amounts in each:
        found = plus(found, amounts)
    return found


def beyond(one: Amounts, other: Amounts) -> Amounts:
    """What the one has more than the other, never less than nothing."""
    return {name: max(amount - other.get(name, 0.0), 0.0) for name, amount in one.items()}


def most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def fits(asked: Amounts, room: Amounts) -> bool:
    """Whether there is room for everything, or so nearly that it does not matter."""
    return lacking(asked, room) is None


def lacking(asked: Amounts, room: Amounts) -> str | None:
    """The first resource for which there is no room: CPU and memory, then the others by name."""
    others = sorted(name for name in asked if name not in BASIC)
    names = (name for name in (*BASIC, *others) if asked.get(name, 0.0) - room.get(name, 0.0) >= TOLERANCE)
    return next(names, None)


def exceeds(sum_: Amounts, limit: Amounts, asked: Amounts) -> bool:
    """Whether the sum is beyond a limit in something that is asked for. Exactly: limits are not stretched; and pods are
    no matter of queues."""
    return any(sum_.get(name, 0.0) > limit.get(name, 0.0) for name in named(asked) if name != PODS)


def named(amounts: Amounts) -> list[str]:
    """What there is any of."""
    return [name for name, amount in amounts.items() if amount > 0]


def is_nothing(amounts: Amounts) -> bool:
    """A place on a node is not counted: everybody takes one."""
    return all(amount < TOLERANCE for name, amount in amounts.items() if name != PODS)


def share(part: float, whole: float) -> float:
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(held: Amounts, whole: Amounts) -> float:
    """Of the resource of which it is largest; what there is none of at all does not count."""
    return max((share(held.get(name, 0.0), whole[name]) for name in named(whole)), default=0.0)
