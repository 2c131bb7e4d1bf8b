"""What a group must hold at least to be of any use: so many pods, so many of each role, so many whole subgroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hekla.scheduler.rows import Pod, PodGroup
from hekla.scheduler.subgroups import UNSELECTED, Subgroup, subgroup_of


def role_minima(row: PodGroup) -> dict[str, int]:
    """The minimum of each role; none where they add up to more than the group's own, since then they are advice."""
    if not row.min_of_role:
        return {}
    minima = {role: minimum for role, minimum in row.min_of_role if minimum > 0}
    return {} if row.min_member < sum(minima.values()) else minima


def has_minimum(row: PodGroup, held: Sequence[Pod]) -> bool:
    """Whether these pods of the group, by themselves, are enough."""
    roles = Counter(pod.role for pod in held)
    if len(held) < row.min_member or any(roles[role] < minimum for role, minimum in role_minima(row).items()):
        return False
    pods_of = Counter(subgroup_of(row.subgroup_policies, pod.labels) for pod in held)
    whole = Counter(subgroup.policy for subgroup, count in pods_of.items() if count >= subgroup.size)
    return all(whole[position] >= policy.minimum for position, policy in enumerate(row.subgroup_policies))


def by_subgroup(row: PodGroup, pods: Sequence[Pod]) -> dict[Subgroup, list[Pod]]:
    """The pods that are of use together only; those that each are welcome alone are left out."""
    found: dict[Subgroup, list[Pod]] = {}
    for pod in pods:
        subgroup = subgroup_of(row.subgroup_policies, pod.labels)
        if subgroup.policy != UNSELECTED:
            found.setdefault(subgroup, []).append(pod)
    return found
