"""Which resources of nodes are to be filled up and which kept free, as a configuration or a pod says it.

Names may end in `*`: such a wish is for every resource that begins so and has no wish of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

MOST, LEAST = "MostAllocated", "LeastAllocated"
_LARGEST = 1e9


@dataclass(frozen=True, slots=True)
class Wish:
    fill: bool  # the fuller the better, else the emptier
    weight: float


class Wishes:
    """Wishes by name of the resource."""

    def __init__(self, by_name: Mapping[str, Wish]) -> None:
        self._exact = {name: wish for name, wish in by_name.items() if not name.endswith("*")}
        prefixes = {name.removesuffix("*"): wish for name, wish in by_name.items() if name.endswith("*")}
        self._prefixes = dict(sorted(prefixes.items(), key=lambda item: -len(item[0])))

    def of(self, name: str) -> Wish | None:
        """The resource's own wish, else that of the longest beginning of its name."""
        found = self._exact.get(name)
        return found or next((wish for start, wish in self._prefixes.items() if name.startswith(start)), None)


DEFAULT = Wishes({name: Wish(fill=False, weight=1.0) for name in ("cpu", "memory")})


@dataclass(frozen=True, slots=True)
class Scarce:
    """Resources that few nodes have: who does not need them should go elsewhere."""

    weight: float
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """What stays free beside each device that is idle: so many cores, so many gigabytes."""

    cores: float
    gigabytes: float


def read_wishes(given: Any) -> Wishes:
    """From `resources`; raises ValueError for what cannot be meant."""
    if given is None:
        return DEFAULT
    return Wishes({_name(name): _wish(str(name), wish) for name, wish in given.items()})


def read_scarce(given: Any) -> Scarce | None:
    """From `sra`; None where it is not enabled."""
    if not _is_enabled(given, ("enable", "resources", "weight", "resourceWeight")):
        return None
    weights = _mapping("resourceWeight", given.get("resourceWeight"))
    names = _names(given.get("resources"))
    _know("resourceWeight", weights, names)
    by_name = {name: _number(f"resourceWeight.{name}", weights.get(name, 1)) for name in names}
    return Scarce(_number("weight", given.get("weight", 1)), by_name)


def read_proportional(given: Any) -> dict[str, DeviceNeeds]:
    """From `proportional`, by device; none where it is not enabled."""
    if not _is_enabled(given, ("enable", "resources", "resourceProportion")):
        return {}
    rates = _mapping("resourceProportion", given.get("resourceProportion"))
    names = _names(given.get("resources"))
    _know("resourceProportion", rates, [f"{name}.{kind}" for name in names for kind in ("cpu", "memory")])
    numbers = {name: _number(f"resourceProportion.{name}", rate) for name, rate in rates.items()}
    return {name: DeviceNeeds(numbers.get(f"{name}.cpu", 0.0), numbers.get(f"{name}.memory", 0.0)) for name in names}


def read_own_wishes(kind: str, weights: str) -> Wishes | None:
    """What a pod says of itself; None where it says nothing that can be read."""
    if kind not in (MOST, LEAST):
        return None
    try:
        said = msgspec.json.decode(weights or "{}", type=dict[str, int])
        # parity: a pod that says how, and not of what, has no wish at all.
        return Wishes({_name(name): Wish(kind == MOST, _number(name, weight)) for name, weight in said.items()})
    except ValueError:
        return Wishes({})


def _is_enabled(given: Any, known: tuple[str, ...]) -> bool:
    _know("", given or {}, known)
    enabled = (given or {}).get("enable", False)
    if not isinstance(enabled, bool):
        raise ValueError(f"enable must be true or false, not {enabled!r}")
    return enabled


def _wish(name: str, given: Any) -> Wish:
    said = _mapping(name, given)
    _know(name, said, ("type", "weight"))
    kind = said.get("type", LEAST)
    if kind not in (MOST, LEAST):
        raise ValueError(f"{name}.type must be {MOST} or {LEAST}, not {kind!r}")
    return Wish(kind == MOST, _number(f"{name}.weight", said.get("weight", 1)))


def _name(name: Any) -> str:
    text = str(name)
    if text == "*" or "*" in text[:-1]:
        raise ValueError(f"{text}: `*` may stand only at the end of a name")
    return text


def _names(text: Any) -> list[str]:
    if not isinstance(text, str):
        raise ValueError(f"resources must be names separated by commas, not {text!r}")
    return list(filter(None, (part.strip() for part in text.split(","))))


def _mapping(place: str, given: Any) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{place} must be a mapping, not {given!r}")
    return given or {}


def _number(place: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= _LARGEST:
        raise ValueError(f"{place} must be a number of zero or more, not {given!r}")
    return float(given)


def _know(place: str, given: Mapping[Any, Any], known: Any) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{place}{'.' if place else ''}{name} means nothing here (known: {', '.join(known)})")
