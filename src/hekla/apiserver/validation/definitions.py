"""CustomResourceDefinitions: what they must say, and what of them may not change."""

from __future__ import annotations

from typing import Any

from hekla.api.field import Problem, invalid, required, unsupported
from hekla.api.kinds import Obj

_PLACE = (("spec", "scope"), ("spec", "names", "kind"), ("spec", "group"), ("spec", "names", "plural"))


def validate_definition(definition: Obj) -> list[Problem]:
    spec = definition.get("spec") or {}
    problems = [required(f"spec.{name}") for name in ("group", "scope", "versions") if not spec.get(name)]
    if spec.get("scope") and spec["scope"] not in ("Cluster", "Namespaced"):
        problems.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    names = spec.get("names") or {}
    problems += [required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
    stored = [version for version in spec.get("versions") or () if version.get("storage")]
    if spec.get("versions") and len(stored) != 1:
        problems.append(
            invalid("spec.versions", len(stored), "must have exactly one version marked as storage version")
        )
    return problems


def validate_definition_name(definition: Obj) -> list[Problem]:
    name, spec = definition["metadata"].get("name"), definition.get("spec") or {}
    names = spec.get("names") or {}
    given = spec.get("group") and names.get("plural")
    if not given or name == f"{names['plural']}.{spec['group']}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def validate_definition_update(new: Obj, old: Obj) -> list[Problem]:
    """What is stored under a definition is found by these."""
    changed = [path for path in _PLACE if _at(new, path) != _at(old, path)]
    return [invalid(".".join(path), _at(new, path), "field is immutable") for path in changed]


def _at(obj: Obj, path: tuple[str, ...]) -> Any:
    for field in path:
        obj = obj.get(field) or {}
    return obj
