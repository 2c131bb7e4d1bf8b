"""Rules of roles: what one allows, and whether some rules together cover another.

A rule is a PolicyRule as it stands in a role: verbs, apiGroups, resources, resourceNames, nonResourceURLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hekla.api.kinds import Obj
from hekla.apiserver.access.attributes import Attributes

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, wanted: Attributes) -> bool:
        if wanted.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not wanted.resource:
            return any(_path_matches(path, wanted.path) for path in self.paths)
        if wanted.group not in self.groups and ALL not in self.groups:
            return False
        if not self._matches_resource(wanted):
            return False
        return not self.names or (not wanted.any_name and wanted.name in self.names)

    def _matches_resource(self, wanted: Attributes) -> bool:
        if ALL in self.resources or wanted.full_resource in self.resources:
            return True
        return bool(wanted.subresource) and f"{ALL}/{wanted.subresource}" in self.resources

    def to_object(self) -> Obj:
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: list(values) for name, values in fields.items() if values}


def read_rules(role: Obj) -> list[Rule]:
    return [read_rule(each) for each in role.get("rules") or ()]


def read_rule(rule: Obj) -> Rule:
    return Rule(
        tuple(rule.get("verbs") or ()),
        tuple(rule.get("apiGroups") or ()),
        tuple(rule.get("resources") or ()),
        tuple(rule.get("resourceNames") or ()),
        tuple(rule.get("nonResourceURLs") or ()),
    )


def uncovered(wanted: Iterable[Rule], held: list[Rule]) -> list[Rule]:
    """Those single grants of `wanted` that no rule of `held` gives: what somebody would hand on without having it."""
    return [part for rule in wanted for part in _single_grants(rule) if not any(_covers(own, part) for own in held)]


def _single_grants(rule: Rule) -> Iterator[Rule]:
    """A rule taken apart into grants of one verb on one resource (of one name), or on one path."""
    for verb in rule.verbs:
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    yield Rule((verb,), (group,), (resource,), (name,) if name else ())
        for path in rule.paths:
            yield Rule((verb,), paths=(path,))


def _covers(own: Rule, part: Rule) -> bool:
    if part.verbs[0] not in own.verbs and ALL not in own.verbs:
        return False
    if part.paths:
        return any(_path_covers(path, part.paths[0]) for path in own.paths)
    if part.groups[0] not in own.groups and ALL not in own.groups:
        return False
    resource = part.resources[0]
    _, slash, subresource = resource.partition("/")
    named = resource in own.resources or ALL in own.resources
    if not named and not (slash and f"{ALL}/{subresource}" in own.resources):
        return False
    return not own.names or (bool(part.names) and part.names[0] in own.names)


def _path_matches(pattern: str, path: str) -> bool:
    if pattern in (ALL, path):
        return True
    return pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL))


def _path_covers(own: str, wanted: str) -> bool:
    return _path_matches(own, wanted) or (own.endswith(ALL) and wanted.startswith(own.rstrip(ALL)))


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """The same grants in fewer rules: those that differ in their verbs alone become one."""
    found: dict[Rule, dict[str, None]] = {}
    for rule in rules:
        found.setdefault(replace(rule, verbs=()), {}).update(dict.fromkeys(rule.verbs))
    return [replace(rule, verbs=tuple(verbs)) for rule, verbs in found.items()]
