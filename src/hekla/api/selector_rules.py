"""What makes a selector wrong: of pods, claims, network policies and disruption budgets."""

from __future__ import annotations

from hekla.api.field import Problem, forbidden, invalid, required
from hekla.api.field_rules import label_map_problems, qualified_field_problems
from hekla.api.kinds import Obj
from hekla.api.names import label_value_problems

_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_ONE_VALUE = "must be specified single value when `operator` is 'Lt' or 'Gt'"


def selector_problems(selector: Obj | None, path: str) -> list[Problem]:
    if selector is None:
        return []
    problems = label_map_problems(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        problems += requirement_problems(one, f"{path}.matchExpressions[{index}]")
    return problems + value_problems(selector, path)


def value_problems(term: Obj, path: str) -> list[Problem]:
    """What labels are compared with has to be what a label can be."""
    return [
        invalid(f"{path}.matchExpressions[{index}].values[{position}]", value, why)
        for index, one in enumerate(term.get("matchExpressions") or ())
        for position, value in enumerate(one.get("values") or ())
        for why in label_value_problems(value)
    ]


def requirement_problems(one: Obj, path: str, *, numbers: bool = False) -> list[Problem]:
    """With `numbers` an operator may compare them."""
    operator, values = str(one.get("operator") or ""), one.get("values") or []
    problems: list[Problem] = []
    if operator in ("In", "NotIn"):
        if not values:
            problems.append(required(f"{path}.values", _VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            problems.append(forbidden(f"{path}.values", _NO_VALUES))
    elif numbers and operator in ("Lt", "Gt"):
        if len(values) != 1:
            problems.append(required(f"{path}.values", _ONE_VALUE))
    else:
        problems.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return problems + qualified_field_problems(str(one.get("key") or ""), f"{path}.key")
