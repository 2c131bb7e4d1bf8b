"""Cluster roles made of others: the rules of every ClusterRole whose labels are selected."""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import Obj
from hekla.api.meta import labels_of, name_of
from hekla.api.selector import label_selector_from


def aggregated_rules(role: Obj, roles: Iterable[Obj]) -> list[Obj] | None:
    """What a role's rules should be; None for a role that has rules of its own."""
    aggregation = role.get("aggregationRule")
    if not aggregation:
        return None
    selectors = [label_selector_from(each) for each in aggregation.get("clusterRoleSelectors") or ()]
    rules: list[Obj] = []
    for other in sorted(roles, key=name_of):
        if name_of(other) == name_of(role):
            continue
        if any(selector is not None and selector.matches(labels_of(other)) for selector in selectors):
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
