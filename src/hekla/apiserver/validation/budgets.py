"""PodDisruptionBudgets: how many pods have to stay, as a number or a part of them."""

from __future__ import annotations

import re
from typing import Any

from hekla.api.field import Problem, invalid
from hekla.api.field_rules import choice_or_absent_problems
from hekla.api.kinds import Obj
from hekla.api.selector_rules import selector_problems

_PERCENT = re.compile(r"([0-9]+)%")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_FIELDS = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def validate_budget(budget: Obj) -> list[Problem]:
    spec = budget.get("spec") or {}
    problems: list[Problem] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {field[0].upper() + field[1:]: spec.get(field) for field in _FIELDS}
        problems.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            problems += _part_problems(spec[field], f"spec.{field}")
    problems += selector_problems(spec.get("selector"), "spec.selector")
    return problems + choice_or_absent_problems(spec, "unhealthyPodEvictionPolicy", "spec", _POLICIES)


def _part_problems(part: Any, path: str) -> list[Problem]:
    if isinstance(part, int):
        return [] if part >= 0 else [invalid(path, part, "must be greater than or equal to 0")]
    percent = _PERCENT.fullmatch(part)
    if percent is None:
        return [invalid(path, part, _PERCENT_TEXT)]
    return [] if _is_a_part(percent[1]) else [invalid(path, part, "must not be greater than 100%")]


def _is_a_part(digits: str) -> bool:
    """Of a hundred. There may be more digits than Python reads as a number."""
    return len(digits.lstrip("0")) <= 3 and int(digits[-3:]) <= 100
