"""Columns of a table, and the cells that tables of several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from hekla.api.duration import human_duration
from hekla.api.kinds import Obj
from hekla.api.meta import parse_timestamp

Cell = Callable[[Obj, datetime], Any]
Column = tuple[str, str, int, Cell]  # name, type, priority (0: always shown), cell

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
INVALID = "<invalid>"

_OPERATORS = {"In": "in", "NotIn": "notin"}


def text(name: str, cell: Cell, priority: int = 0) -> Column:
    return name, "string", priority, cell


def whole_number(name: str, cell: Cell) -> Column:
    return name, "integer", 0, cell


def at(*path: str, default: Any = NONE) -> Cell:
    """What stands at a path; the default where nothing does."""

    def cell(obj: Obj, now: datetime) -> Any:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return default if value is None or value == "" else value

    return cell


def age(moment: str | None, now: datetime) -> str:
    """How long ago, as kubectl says it: `5s`, `3m20s`, `4h`, `12d`."""
    if not moment:
        return UNKNOWN
    try:
        seconds = int((now - parse_timestamp(moment)).total_seconds())
    except ValueError:
        return INVALID
    return human_duration(seconds)


NAME = text("Name", at("metadata", "name"))
AGE = text("Age", lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now))


def count(*fields: str) -> Cell:
    """How many there are in these fields together."""
    return lambda obj, now: sum(len(obj.get(field) or ()) for field in fields)


def labels_text(labels: Obj | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Obj | None) -> str:
    """A selector of labels as one would ask for it."""
    wanted = {key: f"{key}={value}" for key, value in ((selector or {}).get("matchLabels") or {}).items()}
    parts = [*wanted.items()]
    for each in (selector or {}).get("matchExpressions") or ():
        key, operator = each.get("key", ""), each.get("operator", "")
        if operator in _OPERATORS:
            parts.append((key, f"{key} {_OPERATORS[operator]} ({','.join(sorted(each.get('values') or ()))})"))
        else:
            parts.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(part for _, part in sorted(parts, key=lambda part: part[0])) or NONE


def container_columns(*path: str, priority: int = 1) -> list[Column]:
    """What runs in the pods made from a template."""

    def cell(field: str) -> Cell:
        listed = at(*path, "spec", "containers", default=())
        return lambda obj, now: ",".join(str(each.get(field, "")) for each in listed(obj, now))

    return [text("Containers", cell("name"), priority), text("Images", cell("image"), priority)]


def first_few(words: Sequence[str], most: int = 3) -> str:
    more = len(words) - most
    return ",".join(words[:most]) + (f" + {more} more..." if more > 0 else "")


def joined(words: Iterable[str]) -> str:
    return ", ".join(words)
