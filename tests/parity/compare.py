"""Two recordings side by side, field by field, and which of the differences are explained."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from hekla.api.kinds import Obj

_PARTS = ("answers", "objects", "history", "events", "note")
_TELLING = ("name", "type", "mountPath", "containerPort", "step")


@dataclass(frozen=True)
class Difference:
    path: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path}\n      - {_short(self.recorded)}\n      + {_short(self.found)}"


@dataclass
class Explanation:
    """An intended difference: which cases, where, and why."""

    reason: str
    paths: list[str]
    cases: list[str] = field(default_factory=lambda: ["*"])
    used: int = 0

    def covers(self, case: str, path: str) -> bool:
        return any(fnmatchcase(case, one) for one in self.cases) and any(fnmatchcase(path, one) for one in self.paths)


@dataclass
class Verdict:
    case: str
    explained: list[Difference] = field(default_factory=list)
    unexplained: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n  ".join([self.case, *map(str, self.unexplained)])


def read_explanations(path: Path) -> list[Explanation]:
    return [
        Explanation(entry["reason"], _several(entry["path"]), _several(entry.get("case", "*")))
        for entry in yaml.safe_load(path.read_text())
    ]


def judge(case: str, recorded: Obj, found: Obj, explanations: list[Explanation]) -> Verdict:
    verdict = Verdict(case)
    loose = [_positions(one["path"]) for one in recorded.get("varies") or ()]
    for difference in differences({key: recorded.get(key) for key in _PARTS}, {key: found.get(key) for key in _PARTS}):
        if _varies(difference.path, loose):
            continue
        reasons = [one for one in explanations if one.covers(case, difference.path)]
        for one in reasons[:1]:
            one.used += 1
        (verdict.explained if reasons else verdict.unexplained).append(difference)
    return verdict


def differences(recorded: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """Lists of mappings are matched by what tells their items apart; otherwise by position."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in sorted({*recorded, *found}, key=str):
            yield from differences(recorded.get(key), found.get(key), f"{path}/{key}" if path else str(key))
    elif isinstance(recorded, list) and isinstance(found, list) and recorded != found:
        yield from _list_differences(recorded, found, path)
    elif recorded != found:
        yield Difference(path, recorded, found)


def _list_differences(recorded: list[Any], found: list[Any], path: str) -> Iterator[Difference]:
    by_key = _keyed(recorded), _keyed(found)
    if by_key[0] and by_key[1]:
        yield from differences(*by_key, path)
        if set(by_key[0]) == set(by_key[1]) and list(by_key[0]) != list(by_key[1]):
            yield Difference(f"{path} (order)", list(by_key[0]), list(by_key[1]))
    elif len(recorded) == len(found):
        for index, pair in enumerate(zip(recorded, found, strict=True)):
            yield from differences(*pair, f"{path}/{index}")
    else:
        yield Difference(path, recorded, found)


def _keyed(items: list[Any]) -> dict[str, Any] | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    for key in _TELLING:
        names = [str(item[key]) for item in items if item.get(key) is not None]
        if len(set(names)) == len(items):
            return {f"{key}={name}": item for name, item in zip(names, items, strict=True)}
    return None


def _varies(path: str, loose: list[str]) -> bool:
    place = _positions(path.removesuffix(" (order)"))
    return any(place == one or place.startswith(one + "/") or one.startswith(place + "/") for one in loose)


def _positions(path: str) -> str:
    """With every list position written alike, whether it was a number or a key."""
    keyed = "|".join(_TELLING)
    return re.sub(rf"/(?:\d+|(?:{keyed})=[^/]*)(?=/|$)", "/#", path)


def _several(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _short(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) < 400 else text[:399] + "…"
