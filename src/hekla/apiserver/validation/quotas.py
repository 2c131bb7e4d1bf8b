"""ResourceQuotas: what can be counted, and which scopes can narrow that."""

from __future__ import annotations

from hekla.api.field import Problem, invalid, required
from hekla.api.kinds import Obj
from hekla.api.pod_rules.resources import amount_problems
from hekla.api.quantity import canonical, parse
from hekla.api.resource_names import COMPUTE, comes_whole, is_quota_name, quota_name_problems

_OF_PODS = COMPUTE | {"pods"}
# What a scope can be of.
_SCOPES: dict[str, frozenset[str]] = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_ONLY_EXIST = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_ONLY_EXIST_TEXT = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_quota(quota: Obj) -> list[Problem]:
    spec = quota.get("spec") or {}
    hard = spec.get("hard") or {}
    problems: list[Problem] = []
    for name, amount in hard.items():
        problems += quota_name_problems(name, f"spec.hard[{name}]") + counted_problems(
            name, amount, f"spec.hard[{name}]"
        )
    return problems + _scope_problems(spec, hard) + _selector_problems(spec, hard)


def counted_problems(name: str, amount: str, path: str) -> list[Problem]:
    """How much of something there may be."""
    problems = amount_problems(amount, path)
    value = parse(amount)
    if comes_whole(name) and value != value.to_integral_value():
        problems.append(invalid(path, canonical(amount), "must be an integer"))
    return problems


def _scope_problems(spec: Obj, hard: Obj) -> list[Problem]:
    scopes = spec.get("scopes") or []
    problems: list[Problem] = []
    for scope in scopes:
        if scope not in _SCOPES:
            problems.append(invalid("spec.scopes", scopes, "unsupported scope"))
        problems += [invalid("spec.scopes", scopes, _NOT_OF) for name in hard if not _applies(scope, name)]
    return problems + [invalid("spec.scopes", scopes, "conflicting scopes") for _ in _conflicts(scopes)]


def _selector_problems(spec: Obj, hard: Obj) -> list[Problem]:
    path = "spec.scopeSelector.matchExpressions"
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    problems: list[Problem] = []
    for one in expressions:
        scope = one.get("scopeName") or ""
        if scope not in _SCOPES:
            problems.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        problems += [
            invalid(path, {"MatchExpressions": _shown(expressions)}, _NOT_OF)
            for name in hard
            if not _applies(scope, name)
        ]
        problems += _operator_problems(one, scope, path)
    scopes = [one.get("scopeName") or "" for one in expressions]
    return problems + [invalid(path, None, "conflicting scopes") for _ in _conflicts(scopes)]


_NOT_OF = "unsupported scope applied to resource"


def _applies(scope: str, name: str) -> bool:
    return scope not in _SCOPES or not is_quota_name(name) or name in _SCOPES[scope]


def _conflicts(scopes: list[str]) -> list[set[str]]:
    return [pair for pair in _CONFLICTS if pair <= set(scopes)]


def _shown(expressions: list[Obj]) -> list[Obj]:
    return [
        {"ScopeName": one.get("scopeName", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}
        for one in expressions
    ]


def _operator_problems(one: Obj, scope: str, path: str) -> list[Problem]:
    operator, values = one.get("operator") or "", one.get("values") or []
    problems: list[Problem] = []
    if scope in _ONLY_EXIST and operator != "Exists":
        problems.append(invalid(f"{path}.operator", operator, _ONLY_EXIST_TEXT))
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            problems.append(required(f"{path}.values", why))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            problems.append(invalid(f"{path}.values", values, why))
    else:
        problems.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return problems
