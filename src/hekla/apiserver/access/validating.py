"""What roles and bindings get by default, and what they may not be."""

from __future__ import annotations

from hekla.api.field_rules import subdomain_field_problems
from hekla.api.kinds import CLUSTER_ROLE, ROLE, Obj
from hekla.api.names import path_segment_problems
from hekla.apiserver.access.rbac import RBAC_GROUP
from hekla.apiserver.invalid import Problem, invalid, required, unsupported

_SUBJECTS = ("ServiceAccount", "User", "Group")


def default_role(role: Obj) -> None:
    # parity: a role without rules says so with a null.
    role["rules"] = role.get("rules") or None


def default_binding(binding: Obj) -> None:
    reference = binding.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = RBAC_GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC_GROUP


def validate_role(role: Obj) -> list[Problem]:
    return [
        problem
        for index, rule in enumerate(role.get("rules") or ())
        for problem in _rule_problems(rule, f"rules[{index}]", namespaced=True)
    ]


def validate_cluster_role(role: Obj) -> list[Problem]:
    problems = [
        problem
        for index, rule in enumerate(role.get("rules") or ())
        for problem in _rule_problems(rule, f"rules[{index}]", namespaced=False)
    ]
    aggregation = role.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        field = "aggregationRule.clusterRoleSelectors"
        problems.append(required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
    return problems


def validate_role_binding(binding: Obj) -> list[Problem]:
    return _binding_problems(binding, (ROLE.kind, CLUSTER_ROLE.kind), namespaced=True)


def validate_cluster_role_binding(binding: Obj) -> list[Problem]:
    return _binding_problems(binding, (CLUSTER_ROLE.kind,), namespaced=False)


def validate_binding_update(new: Obj, old: Obj) -> list[Problem]:
    reference = new.get("roleRef") or {}
    if reference == old.get("roleRef"):
        return []
    shown = {name: reference.get(name[0].lower() + name[1:], "") for name in ("Kind", "Name")}
    return [invalid("roleRef", {"APIGroup": reference.get("apiGroup", ""), **shown}, "cannot change roleRef")]


def _rule_problems(rule: Obj, path: str, *, namespaced: bool) -> list[Problem]:
    problems: list[Problem] = []
    if not rule.get("verbs"):
        problems.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            problems.append(invalid(f"{path}.nonResourceURLs", urls, why))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            problems.append(invalid(f"{path}.nonResourceURLs", urls, why))
        return problems
    if not rule.get("apiGroups"):
        problems.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        problems.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return problems


def _binding_problems(binding: Obj, kinds: tuple[str, ...], *, namespaced: bool) -> list[Problem]:
    problems: list[Problem] = []
    reference = binding.get("roleRef") or {}
    if reference.get("apiGroup") != RBAC_GROUP:
        problems.append(unsupported("roleRef.apiGroup", reference.get("apiGroup"), (RBAC_GROUP,)))
    if reference.get("kind") not in kinds:
        problems.append(unsupported("roleRef.kind", reference.get("kind") or "", kinds))
    name = reference.get("name") or ""
    problems += [invalid("roleRef.name", name, why) for why in path_segment_problems(name)]
    if not name:
        problems.append(required("roleRef.name"))
    for index, subject in enumerate(binding.get("subjects") or ()):
        problems += _subject_problems(subject, f"subjects[{index}]", namespaced=namespaced)
    return problems


def _subject_problems(subject: Obj, path: str, *, namespaced: bool) -> list[Problem]:
    problems: list[Problem] = []
    if not subject.get("name"):
        problems.append(required(f"{path}.name"))
    kind, group = subject.get("kind"), subject.get("apiGroup") or ""
    if kind not in _SUBJECTS:
        return [*problems, unsupported(f"{path}.kind", kind or "", _SUBJECTS)]
    if kind == "ServiceAccount" and subject.get("name"):
        problems += subdomain_field_problems(subject["name"], f"{path}.name")
    wanted = "" if kind == "ServiceAccount" else RBAC_GROUP
    if group != wanted:
        problems.append(unsupported(f"{path}.apiGroup", group, (wanted,)))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        problems.append(required(f"{path}.namespace"))
    return problems
