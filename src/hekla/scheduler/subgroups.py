"""Gangs inside a gang: which pods of a group belong together, and how many of them hold a place.

A group's policies are asked in order; the first that selects a pod puts it among those whose labels have the same
values. Pods that no policy selects are a subgroup of their own, of which each pod is welcome alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Ints
from hekla.scheduler.rows import PodStatus, SubgroupPolicy
from hekla.scheduler.session import GroupState
from hekla.scheduler.snapshot import Group, are
from hekla.scheduler.tiers import Tiers

UNSELECTED = -1


@dataclass(frozen=True, slots=True)
class Subgroup:
    name: str
    size: int  # pods that are placed together
    policy: int  # position among the group's policies, or UNSELECTED
    number: int = 0  # by which subgroups are ordered


@dataclass(frozen=True, slots=True, eq=False)
class Subgroups:
    each: tuple[Subgroup, ...]
    of: Ints  # for each pod the position of its subgroup in `each`

    def whole(self, state: GroupState, statuses: Iterable[PodStatus], *, best_effort: bool) -> Flags:
        """For each subgroup whether it has its size in pods of these statuses; waiting pods that ask for nothing may
        count as well."""
        sizes = np.array([subgroup.size for subgroup in self.each])
        flags: Flags = self.held(state, statuses, best_effort=best_effort) >= sizes
        return flags

    def held(self, state: GroupState, statuses: Iterable[PodStatus], *, best_effort: bool) -> Ints:
        """For each subgroup how many of its pods have one of these statuses."""
        counted = np.isin(state.status, tuple(statuses))
        if best_effort and state.group.has_best_effort:
            counted |= state.group.best_effort & are(state.status, PodStatus.PENDING)
        return np.bincount(self.of[counted], minlength=len(self.each))

    def enough(self, state: GroupState, whole: Flags) -> bool:
        """Whether so many subgroups are whole that every policy has its minimum."""
        found = np.zeros(len(state.group.row.subgroup_policies), dtype=np.int64)
        for subgroup, is_whole in zip(self.each, whole.tolist()):
            found[subgroup.policy] += is_whole and subgroup.policy != UNSELECTED
        return all(count >= policy.minimum for count, policy in zip(found, state.group.row.subgroup_policies))


def subgroups_of(group: Group) -> Subgroups:
    """The subgroups of a group that has policies."""
    known = group.memo.get(Subgroups)
    if known is None:
        known = group.memo[Subgroups] = _divide(group)
    return cast(Subgroups, known)


def subgroups_in_order(tiers: Tiers, state: GroupState, subgroups: Iterable[int]) -> list[int]:
    """Those first without which a policy has too few whole ones."""
    divided, policies = subgroups_of(state.group), state.group.row.subgroup_policies
    each = divided.each
    ready = {subgroup for subgroup in range(len(each)) if tiers.subgroup_ready(state, subgroup)}
    short = Counter({position: policy.minimum for position, policy in enumerate(policies)})
    short.subtract(each[subgroup].policy for subgroup in ready)
    keys = {at: (tiers.subgroup_key(state, at), each[at].number, each[at].name) for at in subgroups}
    ordered = sorted(subgroups, key=keys.__getitem__)
    required = []
    for subgroup in ordered:
        if subgroup not in ready and short[each[subgroup].policy] > 0:
            short[each[subgroup].policy] -= 1
            required.append(subgroup)
    return [*required, *(subgroup for subgroup in ordered if subgroup not in required)]


def _divide(group: Group) -> Subgroups:
    positions: dict[Subgroup, int] = {}
    policies = group.row.subgroup_policies
    of = [positions.setdefault(subgroup_of(policies, pod.labels), len(positions)) for pod in group.pods]
    return Subgroups(tuple(positions), np.array(of, dtype=np.int64))


def subgroup_of(policies: tuple[SubgroupPolicy, ...], labels: Mapping[str, str]) -> Subgroup:
    """Where a pod with these labels belongs."""
    for position, policy in enumerate(policies):
        values = [labels.get(key, "") for key in policy.keys]
        if policy.selector.matches(labels) and all(values):
            if not values:
                break
            number = int(values[0]) if values[0].isdecimal() else 0
            return Subgroup("-".join([policy.name, *values]), policy.size, position, number)
    return Subgroup("", 1, UNSELECTED)
