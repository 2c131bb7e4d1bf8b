"""Where a pod may run: affinity, tolerations and how it is spread."""

from __future__ import annotations

from collections.abc import Callable

from hekla.api.field import Problem, duplicate, invalid, required, unsupported
from hekla.api.field_rules import (
    choice_or_absent_problems,
    choice_problems,
    qualified_field_problems,
)
from hekla.api.kinds import Obj
from hekla.api.names import label_problems, label_value_problems, subdomain_problems
from hekla.api.selector_rules import requirement_problems, selector_problems, value_problems

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHEN = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def affinity_problems(affinity: Obj, path: str) -> list[Problem]:
    problems = _node_affinity_problems(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        given, where = affinity.get(kind) or {}, f"{path}.{kind}"
        for index, term in enumerate(given.get(_REQUIRED) or ()):
            problems += _pod_term_problems(term, f"{where}.{_REQUIRED}[{index}]")
        problems += _weighted_problems(given, where, "podAffinityTerm", _pod_term_problems)
    return problems


def toleration_problems(tolerations: list[Obj], path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, toleration in enumerate(tolerations):
        problems += _toleration_problems(toleration, f"{path}[{index}]")
    return problems


def spread_problems(constraints: list[Obj], path: str) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        problems += _constraint_problems(constraint, where)
        pair = str(constraint.get("topologyKey") or ""), str(constraint.get("whenUnsatisfiable") or "")
        if pair in seen:
            # Told of the first of the two.
            first = next(i for i, one in enumerate(constraints) if _pair(one) == pair)
            where = f"{path}[{first}].{{topologyKey, whenUnsatisfiable}}"
            problems.append(duplicate(where, f'"{{{pair[0]}, {pair[1]}}}"'))
        seen.add(pair)
        problems += selector_problems(constraint.get("labelSelector"), f"{path}[{index}].labelSelector")
    return problems


def _pair(constraint: Obj) -> tuple[str, str]:
    return str(constraint.get("topologyKey") or ""), str(constraint.get("whenUnsatisfiable") or "")


def _constraint_problems(constraint: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    skew, when, domains = (
        constraint.get("maxSkew") or 0,
        constraint.get("whenUnsatisfiable") or "",
        constraint.get("minDomains"),
    )
    if skew <= 0:
        problems.append(invalid(f"{path}.maxSkew", skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        problems.append(required(f"{path}.topologyKey", "can not be empty"))
    if when not in _WHEN:
        problems.append(unsupported(f"{path}.whenUnsatisfiable", when, _WHEN))
    if domains is not None and domains <= 0:
        problems.append(invalid(f"{path}.minDomains", domains, "must be greater than zero"))
    if domains is not None and when != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        problems.append(invalid(f"{path}.minDomains", domains, why))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        problems += choice_or_absent_problems(constraint, field, path, _POLICIES)
    return problems


def _toleration_problems(toleration: Obj, path: str) -> list[Problem]:
    key, operator, value, effect = (
        str(toleration.get(field) or "") for field in ("key", "operator", "value", "effect")
    )
    problems = qualified_field_problems(key, f"{path}.key") if key else []
    if not key and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        problems.append(invalid(f"{path}.operator", operator, why))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        problems.append(invalid(f"{path}.effect", effect, why))
    if operator in ("", "Equal"):
        problems += [invalid(f"{path}.operator", value, why) for why in label_value_problems(value)[:1]]
    elif operator == "Exists" and value:
        problems.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        # Comparing numbers is known, and off; it is named only to one who tries it.
        known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        problems += [] if operator == "Exists" else [unsupported(f"{path}.operator", operator, known)]
    return problems + choice_problems(toleration, "effect", path, _EFFECTS)


def _node_affinity_problems(affinity: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        problems += node_selector_problems(needed, f"{path}.{_REQUIRED}")
    return problems + _weighted_problems(affinity, path, "preference", _node_term_problems)


def node_selector_problems(selector: Obj, path: str) -> list[Problem]:
    where, terms = f"{path}.nodeSelectorTerms", selector.get("nodeSelectorTerms") or ()
    problems = [] if terms else [required(where, "must have at least one node selector term")]
    for index, term in enumerate(terms):
        problems += _node_term_problems(term, f"{where}[{index}]") + value_problems(term, f"{where}[{index}]")
    return problems


def _node_term_problems(term: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, one in enumerate(term.get("matchExpressions") or ()):
        problems += requirement_problems(one, f"{path}.matchExpressions[{index}]", numbers=True)
    for index, one in enumerate(term.get("matchFields") or ()):
        where = f"{path}.matchFields[{index}]"
        if one.get("operator") not in ("In", "NotIn"):
            problems.append(invalid(f"{where}.operator", one.get("operator") or "", "not a valid selector operator"))
        elif len(one.get("values") or ()) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            problems.append(required(f"{where}.values", why))
        if one.get("key") != "metadata.name":
            problems.append(invalid(f"{where}.key", one.get("key") or "", "not a valid field selector key"))
        for position, value in enumerate(one.get("values") or ()):
            problems += [invalid(f"{where}.values[{position}]", value, why) for why in subdomain_problems(value)]
    return problems


def _pod_term_problems(term: Obj, path: str) -> list[Problem]:
    problems = selector_problems(term.get("labelSelector"), f"{path}.labelSelector")
    problems += selector_problems(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        problems += [invalid(f"{path}.namespace", name, why) for why in label_problems(name)]
    key = str(term.get("topologyKey") or "")
    if not key:
        problems.append(required(f"{path}.topologyKey", "can not be empty"))
    return problems + qualified_field_problems(key, f"{path}.topologyKey")


def _weighted_problems(
    affinity: Obj, path: str, field: str, inner: Callable[[Obj, str], list[Problem]]
) -> list[Problem]:
    problems: list[Problem] = []
    for index, one in enumerate(affinity.get(_PREFERRED) or ()):
        where, weight = f"{path}.{_PREFERRED}[{index}]", one.get("weight") or 0
        if not 1 <= weight <= 100:
            problems.append(invalid(f"{where}.weight", weight, "must be in the range 1-100"))
        problems += inner(one.get(field) or {}, f"{where}.{field}")
    return problems
