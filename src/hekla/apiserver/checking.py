"""Checking a custom resource against its structural schema, in the real server's words."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hekla.apiserver.invalid import Problem, duplicate, invalid, required, too_long, too_many, unsupported, wrong_type
from hekla.apiserver.schema import Node
from hekla.apiserver.times import time_fault

_TYPES: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",), "integer": ("integer",), "number": ("number", "integer"), "string": ("string",),
    "array": ("array",), "object": ("object",), "integer,string": ("integer", "string"),
}  # fmt: skip
_NAMES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
# What Go calls a number it has read; other values have no such name.
_READ_AS = {"integer": "int64", "number": "float64"}
_INT_RANGES = {"int32": 1 << 31, "int64": 1 << 63}
_EXACT = 1 << 53  # whole numbers up to here are still whole as floating-point ones


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
    """A value of the wrong type is held against the other rules all the same, as far as they are for what it is."""
    problems += _type_problems(value, node, path)
    if value is not None:
        _check_alternatives(value, node, path, problems)
    if isinstance(value, str):
        _check_text(value, node, path, problems)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, node, path, problems)
    elif isinstance(value, list):
        _check_list(value, node, path, problems)
    if node.enum and value not in node.enum:
        problems.append(unsupported(path, value, node.enum))
    if isinstance(value, dict):
        _check_object(value, node, path, problems, old if isinstance(old, dict) else {}, but)


def _type_problems(value: Any, node: Node, path: str) -> list[Problem]:
    wanted = "integer,string" if node.int_or_string else node.type
    found = _name(value)
    if not wanted or (value is None and node.nullable) or found in _TYPES[wanted] or _is_whole(value, wanted):
        return []
    if node.format and value is not None and not isinstance(value, str | list):
        # parity: where there is a format, it is asked for, and named is what Go has read, if that has a name.
        wanted, found = node.format, _READ_AS.get(found, "")
    elif node.format and node.type == "string" and isinstance(value, list):
        # parity: a list is let pass where text in a format is wanted.
        return []
    return [wrong_type(path, found, f'{_where(path)} must be of type {wanted}: "{found}"')]


def _is_whole(value: Any, wanted: str) -> bool:
    """Whether a number written with a point or an exponent may stand for a whole one."""
    return isinstance(value, float) and "integer" in wanted and value.is_integer() and abs(value) < _EXACT


def _check_alternatives(value: Any, node: Node, path: str, problems: list[Problem]) -> None:
    """Of those that are all wrong, what is wrong with the first is told."""
    if node.any_of:
        answers = [check(value, each, path) for each in node.any_of]
        if all(answers):
            problems += [_pathless(f'"{path}" must validate at least one schema (anyOf)'), *answers[0]]
    if node.one_of:
        answers = [check(value, each, path) for each in node.one_of]
        right = answers.count([])
        if right != 1:
            how = f"Found {right} valid alternatives" if right else "Found none valid"
            problems.append(_pathless(f'"{path}" must validate one and only one schema (oneOf). {how}'))
            problems += [] if right else answers[0]


def _name(value: Any) -> str:
    if value is None:
        return "null"
    if type(value) is int and not -_INT_RANGES["int64"] <= value < _INT_RANGES["int64"]:
        return "number"
    return _NAMES.get(type(value), "object")


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
    if node.items is not None:
        for index, below in enumerate(value):
            _check(below, node.items, f"{path}[{index}]", problems)
    if "minItems" in bounds and len(value) < bounds["minItems"]:
        problems.append(invalid(path, len(value), f"{_where(path)} should have at least {bounds['minItems']} items"))
    if "maxItems" in bounds and len(value) > bounds["maxItems"]:
        problems.append(too_many(path, len(value), bounds["maxItems"]))
    if node.list_type in ("map", "set"):
        _check_unique(value, node, path, problems)


def _check_unique(value: list[Any], node: Node, path: str, problems: list[Problem]) -> None:
    seen: set[str] = set()
    for index, below in enumerate(value):
        key = below
        if node.list_type == "map":
            if not isinstance(below, dict):
                if below is not None:
                    problems.append(
                        invalid(f"{path}[{index}]", below, "must be an object for an array of list-type map")
                    )
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
    if node.format == "date-time" and time_fault(value.upper()):
        problems.append(wrong_type(path, value, f'{_where(path)} must be of type date-time: "{value}"'))


def _check_number(value: float, node: Node, path: str, problems: list[Problem]) -> None:
    bounds = node.bounds
    where = _where(path)
    limit = _INT_RANGES.get(node.format, _INT_RANGES["int64"])
    if node.type == "integer" and not (value == int(value) and -limit <= value < limit):
        format_ = f"with format {node.format}" if node.format else "(default format)"
        problems.append(_pathless(f"Checked value must be of type integer {format_} in {path}"))
    if "multipleOf" in bounds and value % bounds["multipleOf"]:
        problems.append(invalid(path, value, f"{where} should be a multiple of {bounds['multipleOf']}"))
    if "maximum" in bounds and (value > bounds["maximum"] or _touches(value, bounds, "aximum")):
        words = "less than" if bounds.get("exclusiveMaximum") else "less than or equal to"
        problems.append(invalid(path, value, f"{where} should be {words} {bounds['maximum']}"))
    if "minimum" in bounds and (value < bounds["minimum"] or _touches(value, bounds, "inimum")):
        words = "greater than" if bounds.get("exclusiveMinimum") else "greater than or equal to"
        problems.append(invalid(path, value, f"{where} should be {words} {bounds['minimum']}"))


def _pathless(text: str) -> Problem:
    # parity: the real server loses the field's path here.
    return invalid("<nil>", "", text)


def _touches(value: float, bounds: dict[str, Any], end: str) -> bool:
    return bool(bounds.get(f"exclusiveM{end}")) and value == bounds[f"m{end}"]
