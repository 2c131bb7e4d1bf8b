"""All or nothing: so many pods, so many of each role, so many whole subgroups."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tests.scheduler.model.cluster import POSSIBLE, PROMISED, READY, Cluster, Group, Pod, Status

Subgroup = tuple[Any, ...] | None


class Gang:
    def __init__(self, cluster: Cluster, entry: dict[str, Any]) -> None:
        pass

    def is_valid(self, group: Group) -> bool:
        """Whether it could come to its minimum with the pods it has."""
        return self._has_minimum(group, POSSIBLE, with_modest=False)

    def is_ready(self, group: Group) -> bool:
        """Pods that ask for nothing count though they wait: there will be a place for them."""
        return self._has_minimum(group, READY)

    def is_promised(self, group: Group) -> bool:
        return self._has_minimum(group, PROMISED)

    def is_starving(self, group: Group) -> bool:
        """Here roles, subgroups and pods that ask for nothing do not count."""
        return len(group.having(PROMISED)) < group.minimum

    def group_rank(self, group: Group) -> float:
        return float(self.is_ready(group))

    def subgroup_rank(self, group: Group, subgroup: Subgroup) -> float:
        return float(self.subgroup_is_ready(group, subgroup))

    def subgroup_is_ready(self, group: Group, subgroup: Subgroup) -> bool:
        return is_whole(group, subgroup, READY)

    def subgroup_is_promised(self, group: Group, subgroup: Subgroup) -> bool:
        return is_whole(group, subgroup, PROMISED)

    def preemptable(self, contender: Pod, candidates: list[Pod]) -> list[Pod]:
        """Of every group as many as it has beyond its minimum, the least important."""
        allowed: list[Pod] = []
        for pod in candidates:
            assert pod.group is not None
            taken = sum(1 for other in allowed if other.group is pod.group)
            if len(pod.group.having(READY)) - taken > pod.group.minimum:
                allowed.append(pod)
        return allowed

    reclaimable = preemptable

    def _has_minimum(self, group: Group, statuses: Collection[Status], *, with_modest: bool = True) -> bool:
        return (
            _number(group.pods, statuses, with_modest) >= group.minimum
            and _has_roles(group, statuses, with_modest)
            and _has_subgroups(group, statuses, with_modest)
        )


def _number(pods: list[Pod], statuses: Collection[Status], with_modest: bool) -> int:
    modest = [pod for pod in pods if with_modest and pod.status is Status.PENDING and pod.best_effort]
    return len({pod.uid for pod in (*modest, *(pod for pod in pods if pod.status in statuses))})


def _has_roles(group: Group, statuses: Collection[Status], with_modest: bool) -> bool:
    """Minima of roles that add up to more than the group's own are advice."""
    if group.minimum < sum(group.of_role.values()):
        return True
    return all(
        _number([pod for pod in group.pods if pod.role == role], statuses, with_modest) >= minimum
        for role, minimum in group.of_role.items()
    )


def _has_subgroups(group: Group, statuses: Collection[Status], with_modest: bool) -> bool:
    whole = [part for part in subgroups_of(group) if part and is_whole(group, part, statuses, with_modest)]
    return all(
        sum(1 for part in whole if part[0] == number) >= (policy.get("minSubGroups") or 0)
        for number, policy in enumerate(group.policies)
    )


def subgroups_of(group: Group) -> list[Subgroup]:
    """None stands for the pods that are in no subgroup."""
    return list(dict.fromkeys(pod.subgroup for pod in group.pods))


def is_whole(group: Group, subgroup: Subgroup, statuses: Collection[Status], with_modest: bool = True) -> bool:
    members = [pod for pod in group.pods if pod.subgroup == subgroup]
    return _number(members, statuses, with_modest) >= size_of(group, subgroup)


def size_of(group: Group, subgroup: Subgroup) -> int:
    """How many pods of a subgroup belong together. Each that is in none is welcome alone."""
    return 1 if subgroup is None else group.policies[subgroup[0]].get("subGroupSize") or 1
