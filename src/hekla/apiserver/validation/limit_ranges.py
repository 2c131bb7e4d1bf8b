"""LimitRanges: bounds and defaults of what containers, pods and claims ask for, which have to fit each other."""

from __future__ import annotations

import json

from hekla.api.field import Problem, duplicate, forbidden, invalid, required
from hekla.api.field_rules import qualified_field_problems
from hekla.api.kinds import Obj
from hekla.api.quantity import parse
from hekla.api.resource_names import container_name_problems, may_overcommit, resource_name_problems

_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_OF_CONTAINERS = ("default", "defaultRequest")
# Which may not be greater than which: names of both, and which of them is told of, beside what is shown.
_ORDER: tuple[tuple[str, str, str, str], ...] = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)
_WORDS = {
    "min": "min value",
    "max": "max value",
    "default": "default value",
    "defaultRequest": "default request value",
}


def validate_limit_range(limit_range: Obj) -> list[Problem]:
    problems: list[Problem] = []
    types: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, type_ = f"spec.limits[{index}]", item.get("type") or ""
        problems += _type_problems(type_, f"{path}.type")
        if type_ in types:
            problems.append(duplicate(f"{path}.type", json.dumps(type_)))
        types.add(type_)
        problems += _name_problems(item, type_, path)
        for name in {name: None for bound in _BOUNDS for name in item.get(bound) or ()}:
            problems += _amount_problems(item, name, path)
    return problems


def _type_problems(type_: str, path: str) -> list[Problem]:
    problems = qualified_field_problems(type_, path)
    if not problems and "/" not in type_ and type_ not in _TYPES:
        problems.append(invalid(path, type_, "must be a standard limit type or fully qualified"))
    return problems


def _name_problems(item: Obj, type_: str, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for bound in _BOUNDS:
        if type_ == "Pod" and bound in _OF_CONTAINERS:
            if item.get(bound):
                problems.append(forbidden(f"{path}.{bound}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in item.get(bound) or ():
            where = f"{path}.{bound}[{name}]"
            if type_ in ("Container", "Pod"):
                problems += container_name_problems(name, where)
            else:
                problems += resource_name_problems(name, where)
    if type_ == "PersistentVolumeClaim" and not any("storage" in (item.get(bound) or ()) for bound in ("min", "max")):
        why = "either minimum or maximum storage value is required, but neither was provided"
        problems.append(required(f"{path}.limits", why))
    return problems


def _amount_problems(item: Obj, name: str, path: str) -> list[Problem]:
    given = {bound: item[bound][name] for bound in _BOUNDS if name in (item.get(bound) or ())}
    problems: list[Problem] = []
    for least, most, place, shown in _ORDER:
        if least in given and most in given and parse(given[least]) > parse(given[most]):
            against = "default limit value" if (least, most) == _OF_CONTAINERS[::-1] else _WORDS[most]
            why = f"{_WORDS[least]} {given[least]} is greater than {against} {given[most]}"
            problems.append(invalid(f"{path}.{place}[{name}]", given[shown], why))
    problems += _ratio_problems(given, f"{path}.maxLimitRequestRatio[{name}]")
    if not may_overcommit(name) and all(bound in given for bound in _OF_CONTAINERS):
        limit, request = given["default"], given["defaultRequest"]
        if parse(limit) != parse(request):
            why = f"default value {limit} must equal to defaultRequest value {request} in {name}"
            problems.append(invalid(f"{path}.defaultRequest[{name}]", request, why))
    return problems


def _ratio_problems(given: dict[str, str], path: str) -> list[Problem]:
    ratio = given.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    problems = [invalid(path, ratio, f"ratio {ratio} is less than 1")] if parse(ratio) < 1 else []
    least, most = parse(given.get("min", "0")), parse(given.get("max", "0"))
    if "min" in given and "max" in given and least:
        possible = float(most / least)
        if parse(ratio) > possible:
            problems.append(invalid(path, ratio, f"ratio {ratio} is greater than max/min = {possible:f}"))
    return problems
