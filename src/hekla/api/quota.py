"""A ResourceQuota as it is read once: what it allows, of whom, and what counts towards it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from hekla.api.kinds import Obj
from hekla.api.meta import Key, key_of
from hekla.api.pod_resources import Amount, Amounts
from hekla.api.quota_usage import PODS, counted_resource, usage_of


@dataclass(frozen=True, slots=True)
class Scope:
    """One of the properties a pod must have to count."""

    name: str
    operator: str = "Exists"
    values: frozenset[str] = frozenset()

    def covers(self, pod: Obj) -> bool:
        match self.name:
            case "Terminating":
                return _has_deadline(pod)
            case "NotTerminating":
                return not _has_deadline(pod)
            case "BestEffort":
                return _is_best_effort(pod)
            case "NotBestEffort":
                return not _is_best_effort(pod)
            case "PriorityClass":
                return self._selects(pod["spec"].get("priorityClassName") or "")
            case "CrossNamespacePodAffinity":
                return _looks_into_other_namespaces(pod)
        return False

    def _selects(self, priority_class: str) -> bool:
        match self.operator:
            case "Exists":
                return bool(priority_class)
            case "DoesNotExist":
                return not priority_class
            case "In":
                return priority_class in self.values
        return priority_class not in self.values


@dataclass(frozen=True, slots=True)
class Quota:
    """`names` are those of `hard` under which objects of a resource are counted, by resource."""

    key: Key
    hard: Mapping[str, Amount]
    scopes: tuple[Scope, ...]
    names: Mapping[str, frozenset[str]]

    def covers(self, resource: str, obj: Obj) -> bool:
        """Whether an object of its namespace counts. Scopes are of pods: with one, nothing else does."""
        if resource not in self.names:
            return False
        return not self.scopes or (resource == PODS and all(scope.covers(obj) for scope in self.scopes))

    def usage(self, resource: str, obj: Obj, now: datetime) -> Amounts:
        """What an object uses of what is limited; nothing when it does not count."""
        if not self.covers(resource, obj):
            return {}
        names = self.names[resource]
        return {name: amount for name, amount in usage_of(resource, obj, now).items() if name in names}


def read_quota(quota: Obj) -> Quota:
    spec = quota.get("spec") or {}
    hard = {name: Amount.of(text) for name, text in (spec.get("hard") or {}).items()}
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    scopes = [Scope(name) for name in spec.get("scopes") or ()] + [
        Scope(each["scopeName"], each["operator"], frozenset(each.get("values") or ())) for each in expressions
    ]
    names: dict[str, set[str]] = {}
    for name in hard:
        names.setdefault(counted_resource(name), set()).add(name)
    names.pop("", None)
    return Quota(key_of(quota), hard, tuple(scopes), {resource: frozenset(of) for resource, of in names.items()})


def _has_deadline(pod: Obj) -> bool:
    return pod["spec"].get("activeDeadlineSeconds") is not None


def _is_best_effort(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("qosClass") == "BestEffort"


def _looks_into_other_namespaces(pod: Obj) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        of_kind = affinity.get(name) or {}
        terms = list(of_kind.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = of_kind.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or {} for each in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
