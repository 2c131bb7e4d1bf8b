"""Checking a custom resource against its structural schema, in the real server's words."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hekla.apiserver.invalid import Problem, duplicate, invalid, required, too_long, too_many, unsupported, wrong_type
from hekla.apiserver.schema import Node

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "object": dict, "array": list, "boolean": bool, "integer": int, "number": (int, float),
}  # fmt: skip
_NAMES: dict[type, str] = {str: "string", list: "array", dict: "object"}
_INT_RANGES = {"int32": 1 << 31, "int64": 1 << 63}


def check(
    value: Any, node: Node, path: str = "", *, old: Any = None, but: frozenset[str] = frozenset()
) -> list[Problem]:
    """All problems of a value, in the order of its schema.

    What it has in common with `old`, and its fields named in `but`, are let pass.
    """
    problems: list[Problem] = []
    _check(value, node, path, problems, old, but)
    return problems


def _check(
    value: Any,
    node: Node,
    path: str,
    problems: list[Problem],
    old: Any = None,
    but: frozenset[str] = frozenset(),
) -> None:
    if value is None and node.nullable:
        return
    if node.int_or_string:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            problems.append(_type_problem(value, "integer,string", path))
        return
    if node.type and not _is(value, node.type):
        problems.append(_type_problem(value, node.type, path))
        if isinstance(value, float) and node.type == "integer":
            problems.append(_format_problem("(default format)", path))
        return
    if node.enum and value not in node.enum:
        problems.append(unsupported(path, value, node.enum))
    if isinstance(value, dict):
        _check_object(value, node, path, problems, old if isinstance(old, dict) else {}, but)
    elif isinstance(value, list):
        _check_list(value, node, path, problems)
    elif isinstance(value, str):
        _check_text(value, node, path, problems)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, node, path, problems)
    if node.any_of and not any(not check(value, each, path) for each in node.any_of):
        problems.append(invalid(path, value, f'"{path}" must validate at least one schema (anyOf)', by_type=True))
    if node.one_of and sum(not check(value, each, path) for each in node.one_of) != 1:
        problems.append(invalid(path, value, f'"{path}" must validate one and only one schema (oneOf)', by_type=True))


def _is(value: Any, type_: str) -> bool:
    if isinstance(value, bool):
        return type_ == "boolean"
    if isinstance(value, float) and type_ == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES.get(type_, object))


def _type_problem(value: Any, wanted: str, path: str) -> Problem:
    found = _name(value)
    return wrong_type(path, found, f'{_where(path)} must be of type {wanted}: "{found}"')


def _name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return _NAMES[type(value)]


def same(one: Any, other: Any) -> bool:
    """Whether two values are written alike in JSON; to Python, 1, 1.0 and true are equal."""
    return one is other or (bool(one == other) and msgspec.json.encode(one) == msgspec.json.encode(other))


def _where(path: str) -> str:
    return f"{path} in body"


def _check_object(
    value: dict[str, Any], node: Node, path: str, problems: list[Problem], old: dict[str, Any], but: frozenset[str]
) -> None:
    for name in node.required:
        if name not in value:
            problems.append(required(_join(path, name)))
    bounds = node.bounds
    if "minProperties" in bounds and len(value) < bounds["minProperties"]:
        problems.append(
            invalid(path, len(value), f"{_where(path)} should have at least {bounds['minProperties']} properties")
        )
    if "maxProperties" in bounds and len(value) > bounds["maxProperties"]:
        problems.append(too_many(path, len(value), bounds["maxProperties"]))
    properties = node.properties or {}
    for name in sorted(value):
        child = properties.get(name) or node.additional
        if child is not None and name not in but and not (name in old and same(old[name], value[name])):
            _check(value[name], child, _join(path, name), problems, old.get(name))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_list(value: list[Any], node: Node, path: str, problems: list[Problem]) -> None:
    bounds = node.bounds
    if "minItems" in bounds and len(value) < bounds["minItems"]:
        problems.append(invalid(path, len(value), f"{_where(path)} should have at least {bounds['minItems']} items"))
    if "maxItems" in bounds and len(value) > bounds["maxItems"]:
        problems.append(too_many(path, len(value), bounds["maxItems"]))
    if node.items is not None:
        for index, below in enumerate(value):
            _check(below, node.items, f"{path}[{index}]", problems)
    if node.list_type in ("map", "set"):
        _check_unique(value, node, path, problems)


def _check_unique(value: list[Any], node: Node, path: str, problems: list[Problem]) -> None:
    seen: set[str] = set()
    for index, below in enumerate(value):
        key = below
        if node.list_type == "map":
            if not isinstance(below, dict):
                continue
            key = {name: below[name] for name in node.map_keys if name in below}
        text = json.dumps(key, sort_keys=True, separators=(",", ":"))
        if text in seen:
            problems.append(duplicate(f"{path}[{index}]", text))
        seen.add(text)


def _check_text(value: str, node: Node, path: str, problems: list[Problem]) -> None:
    """The first rule a text breaks; the others are not looked at."""
    bounds = node.bounds
    if "maxLength" in bounds and len(value) > bounds["maxLength"]:
        problems.append(too_long(path, bounds["maxLength"]))
    elif "minLength" in bounds and len(value) < bounds["minLength"]:
        problems.append(invalid(path, value, f"{_where(path)} should be at least {bounds['minLength']} chars long"))
    elif node.pattern is not None and not node.pattern.search(value):
        problems.append(invalid(path, value, f"{_where(path)} should match '{node.pattern.pattern}'"))


def _check_number(value: float, node: Node, path: str, problems: list[Problem]) -> None:
    bounds = node.bounds
    where = _where(path)
    limit = _INT_RANGES.get(node.format)
    if limit is not None and not -limit <= value < limit:
        problems.append(_format_problem(f"with format {node.format}", path))
    if "multipleOf" in bounds and value % bounds["multipleOf"]:
        problems.append(invalid(path, value, f"{where} should be a multiple of {bounds['multipleOf']}"))
    if "maximum" in bounds and (value > bounds["maximum"] or _touches(value, bounds, "aximum")):
        words = "less than" if bounds.get("exclusiveMaximum") else "less than or equal to"
        problems.append(invalid(path, value, f"{where} should be {words} {bounds['maximum']}"))
    if "minimum" in bounds and (value < bounds["minimum"] or _touches(value, bounds, "inimum")):
        words = "greater than" if bounds.get("exclusiveMinimum") else "greater than or equal to"
        problems.append(invalid(path, value, f"{where} should be {words} {bounds['minimum']}"))


def _format_problem(format_: str, path: str) -> Problem:
    # parity: the real server loses the field's path here.
    return invalid("<nil>", "", f"Checked value must be of type integer {format_} in {path}")


def _touches(value: float, bounds: dict[str, Any], end: str) -> bool:
    return bool(bounds.get(f"exclusiveM{end}")) and value == bounds[f"m{end}"]
