"""Important things first."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.extension import GroupOrder, GroupStarving, PodOrder, Preemptable, SchedulerPlugin, SubgroupOrder
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.session import GroupState
from hekla.scheduler.snapshot import Group
from hekla.scheduler.subgroups import subgroups_of


class Priority(SchedulerPlugin, GroupOrder, SubgroupOrder, PodOrder, GroupStarving, Preemptable):
    """Groups by the priority of their class, the pods of a group by their own; the lower one leaves for the higher."""

    def group_key(self, state: GroupState) -> float:
        return -state.group.priority

    def subgroup_key(self, state: GroupState, subgroup: int) -> float:
        group = state.group
        return -float(group.pod_priority[subgroups_of(group).of == subgroup].max())

    def pod_keys(self, group: Group) -> Ints:
        return -group.pod_priority

    def group_starving(self, state: GroupState) -> bool:
        return state.ready_pods + state.waiting_pods < len(state.group.pods)

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return [resident for resident in candidates if _is_lower(resident, contender)]


def _is_lower(resident: Resident, contender: Contender) -> bool:
    if resident.state is contender.state:
        return resident.pod.priority < contender.pod.priority
    return resident.state.group.priority < contender.state.group.priority
