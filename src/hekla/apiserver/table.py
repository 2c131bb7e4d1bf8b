"""Table output: the columns kubectl shows, and an object's cells in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hekla.api.kinds import Obj
from hekla.apiserver.columns.cells import AGE, NAME, Column, age
from hekla.apiserver.columns.tables import BUILT_IN_TABLES
from hekla.apiserver.resource import Resource

_CREATED: Column = (
    "Created At", "date", 0, lambda obj, now: obj["metadata"].get("creationTimestamp"),
)  # fmt: skip
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_INDEX = re.compile(r"-?[0-9]{1,9}")
_FILTER = re.compile(r"""\?\(\s*@\.([\w.]+)\s*==\s*["']([^"']*)["']\s*\)""")


def table_columns(resource: Resource) -> list[Obj]:
    return [
        {
            "name": name,
            "type": type_,
            "format": "name" if name == "Name" and not (index and resource.is_custom) else "",
            "description": "",
            "priority": priority,
        }
        for index, (name, type_, priority, _) in enumerate(_columns(resource))
    ]


def table_row(resource: Resource, obj: Obj, now: datetime) -> list[Any]:
    return [cell(obj, now) for _, _, _, cell in _columns(resource)]


def _columns(resource: Resource) -> list[Column]:
    known = BUILT_IN_TABLES.get(resource.storage)
    if known is not None:
        return known
    if not resource.is_custom:
        return [NAME, _CREATED]
    listed = resource.version.get("additionalPrinterColumns")
    if not listed:
        return [NAME, AGE]
    return [NAME, *(_custom_column(each) for each in listed)]


def _custom_column(described: Obj) -> Column:
    type_ = described["type"]
    return described["name"], _shown_type(type_), int(described.get("priority", 0)), _Cell(described["jsonPath"], type_)


def _shown_type(type_: str) -> str:
    # A date is shown as an age, which is text.
    return "string" if type_ == "date" else str(type_)


class _Cell:
    def __init__(self, path: str, type_: str) -> None:
        self._steps = read_json_path(path)
        self._type = type_

    def __call__(self, obj: Obj, now: datetime) -> Any:
        found = _walk(obj, self._steps)
        if not found:
            return None
        if self._type == "date":
            return age(str(found[0]), now)
        if self._type in ("integer", "number", "boolean"):
            return found[0]
        return ",".join(_text(each) for each in found)


def read_json_path(path: str) -> list[Callable[[Any], list[Any]]]:
    """The part of JSONPath that printer columns use: fields, indexes, `[*]` and equality filters."""
    steps: list[Callable[[Any], list[Any]]] = []
    for match in _STEP.finditer(path.replace("\\.", "\0")):
        name, bracket = match[1], match[2]
        if name is not None:
            steps.append(_Field(name.replace("\0", ".")))
        else:
            steps.append(_bracket(bracket))
    return steps


def _bracket(text: str) -> Callable[[Any], list[Any]]:
    found = _FILTER.fullmatch(text)
    if found is not None:
        return _Where(found[1].split("."), found[2])
    if text == "*":
        return _every
    if _INDEX.fullmatch(text):
        return _Index(int(text))
    return _Field(text.strip("'\""))


class _Field:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, value: Any) -> list[Any]:
        return [value[self._name]] if isinstance(value, dict) and value.get(self._name) is not None else []


class _Index:
    def __init__(self, index: int) -> None:
        self._index = index

    def __call__(self, value: Any) -> list[Any]:
        return value[self._index :][:1] if isinstance(value, list) else []


class _Where:
    def __init__(self, path: list[str], wanted: str) -> None:
        self._path = path
        self._wanted = wanted

    def __call__(self, value: Any) -> list[Any]:
        return [each for each in _every(value) if _walk(each, [_Field(part) for part in self._path]) == [self._wanted]]


def _every(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else []


def _walk(value: Any, steps: Any) -> list[Any]:
    found = [value]
    for step in steps:
        found = [below for each in found for below in step(each)]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_text(below)}" for key, below in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_text, value)) + "]"
    return str(value)
