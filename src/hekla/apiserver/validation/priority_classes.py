"""PriorityClasses: those of the system stand above all that users may make."""

from __future__ import annotations

from hekla.api.field import Problem, forbidden, required, unsupported
from hekla.api.kinds import Obj

_HIGHEST = 1_000_000_000
_POLICIES = ("PreemptLowerPriority", "Never")
_SYSTEM = "system-"
_KNOWN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def validate_priority_class(priority_class: Obj) -> list[Problem]:
    problems: list[Problem] = []
    name = priority_class["metadata"].get("name") or ""
    if name.startswith(_SYSTEM):
        problems += _system_problems(name, priority_class)
    elif priority_class["value"] > _HIGHEST:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        problems.append(forbidden("value", why))
    policy = priority_class["preemptionPolicy"]
    if not policy:
        problems.append(required("preemptionPolicy"))
    elif policy not in _POLICIES:
        problems.append(unsupported("preemptionPolicy", policy, _POLICIES))
    return problems


def _system_problems(name: str, priority_class: Obj) -> list[Problem]:
    if name not in _KNOWN:
        error = f"{name} is not a known system priority class"
    elif priority_class["value"] != _KNOWN[name]:
        error = f"value of {name} PriorityClass must be {_KNOWN[name]}"
    elif priority_class.get("globalDefault"):
        error = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    why = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: {error}"
    return [forbidden("metadata.name", why)]
