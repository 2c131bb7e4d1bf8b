"""Two recordings side by side, field by field, and which of the differences are explained.

Events are compared by what is told and by the order in which that is first told of an object: each text is a field of
its own, below the object it is about, and those that both sides tell must come one after the other alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from hekla.api.kinds import Obj
from tests.parity.predicted import predict

_PARTS = ("answers", "objects", "history", "events", "note")
_GO_ERROR = re.compile(r'&errors\.StatusError\{.*?Message:"((?:[^"\\]|\\.)*)".*?\}\}')
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
    """An intended difference: which cases, on which cluster, where, between which values, and why.

    A value that is text is a glob, or in angle brackets the name of a prediction (`predicted.py`); any other is the
    value itself.
    """

    reason: str
    path: str
    case: str = "*"
    recorded: Any = "*"
    found: Any = "*"
    cluster: str = ""
    used: int = 0

    def covers(self, case: str, difference: Difference, found: Obj) -> bool:
        """`found`: the whole recording that the difference is in."""
        return (
            fnmatchcase(case, self.case)
            and fnmatchcase(difference.path, self.path)
            and _is(difference.recorded, self.recorded)
            and _is(difference.found, _wanted(self.found, found, difference.path))
        )


@dataclass
class Verdict:
    case: str
    explained: list[Difference] = field(default_factory=list)
    unexplained: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n  ".join([self.case, *map(str, self.unexplained)])


def read_explanations(path: Path, cluster: str) -> list[Explanation]:
    """Those that hold on `cluster`, which is `local` or `real`."""
    entries = [
        Explanation(
            reason=entry["reason"],
            path=entry["path"],
            case=entry.get("case", "*"),
            recorded=entry.get("recorded", "*"),
            found=entry.get("found", "*"),
            cluster=entry.get("cluster", ""),
        )
        for entry in yaml.safe_load(path.read_text())
        if not entry.get("coarse")
    ]
    return [entry for entry in entries if entry.cluster in ("", cluster)]


def unneeded(explanations: list[Explanation]) -> list[str]:
    """Reasons none of whose entries has explained anything."""
    used = {one.reason for one in explanations if one.used}
    return sorted({one.reason for one in explanations} - used)


def judge(case: str, recorded: Obj, found: Obj, explanations: list[Explanation]) -> Verdict:
    verdict = Verdict(case)
    loose = [place for one in recorded.get("varies") or () for place in _loose_places(recorded, one)]
    compared = _parts(recorded, found), _parts(found, recorded)
    firm = (one for one in differences(*compared) if not _varies(one.path, loose))
    for difference in (*firm, *_event_orders(*compared, loose)):
        reasons = [one for one in explanations if one.covers(case, difference, found)]
        for one in reasons[:1]:
            one.used += 1
        (verdict.explained if reasons else verdict.unexplained).append(difference)
    return verdict


def _parts(recording: Obj, other: Obj) -> Obj:
    """What is compared: with the Events of every object that either of the two tells of."""
    told = recording.get("events") or {}
    about = {**told, **(other.get("events") or {})}
    events = {name: {_event_text(text): "told" for text in told.get(name, ())} for name in about}
    return {**{key: recording.get(key) for key in _PARTS}, "events": events}


def _event_orders(recorded: Obj, found: Obj, loose: list[str]) -> Iterator[Difference]:
    """The objects of which both tell the same things, those that upstream's own runs agree on, one after another."""
    for about, told in recorded["events"].items():
        other = found["events"][about]
        firm = {text for text in told if text in other and f"events/{about}/{text}" not in loose}
        orders = [text for text in told if text in firm], [text for text in other if text in firm]
        if orders[0] != orders[1]:
            yield Difference(f"events/{about} (order)", *orders)


def _event_text(text: str) -> str:
    """An Event without its aggregation, and with the API server's own words in place of a dump of Go's error."""
    text = _GO_ERROR.sub(lambda found: str(json.loads(f'"{found[1]}"')), text)
    return text.replace("(combined from similar events): ", "")


def _loose_places(recorded: Obj, varying: Obj) -> list[str]:
    """Where upstream disagrees with itself. Of Events, those that only some of its runs told."""
    path = str(varying["path"])
    if not path.startswith("events/"):
        return [_as_compared(recorded, path)]
    about = re.sub(r"/\d+$", "", path)
    return [f"{about}/{text}" for seen in varying["seen"] for text in _several(seen) if text]


def _as_compared(document: Any, path: str) -> str:
    """A path that counts the items of lists, with the keys they are compared by. Keys may hold slashes themselves."""
    if not path:
        return ""
    if isinstance(document, list):
        index, _, rest = path.partition("/")
        keyed = list((_keyed(document) or {}).items())
        known = index.isdigit() and int(index) < len(document)
        name, item = keyed[int(index)] if known and keyed else (index, document[int(index)] if known else None)
    else:
        fitting = [key for key in document if path == key or path.startswith(f"{key}/")] if document else []
        name = max(fitting, key=len, default=path)
        rest, item = path[len(name) + 1 :], (document or {}).get(name)
    if rest and isinstance(item, dict | list):
        rest = _as_compared(item, rest)
    return f"{name}/{rest}" if rest else name


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
    place = path.removesuffix(" (order)")
    return any(place == one or place.startswith(one + "/") or one.startswith(place + "/") for one in loose)


def _several(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _wanted(pattern: Any, found: Obj, path: str) -> Any:
    named = isinstance(pattern, str) and pattern.startswith("<")
    return predict(pattern, found, path) if named else pattern


def _is(value: Any, pattern: Any) -> bool:
    return fnmatchcase(_text(value), pattern) if isinstance(pattern, str) else bool(value == pattern)


def _text(value: Any) -> str:
    return "absent" if value is None else str(value)


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) < 400 else text[:399] + "…"
