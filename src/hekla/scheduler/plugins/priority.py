"""Important things first."""

from __future__ import annotations

from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.extension import GroupOrder, PodOrder, SchedulerPlugin
from hekla.scheduler.session import GroupState
from hekla.scheduler.snapshot import Group


class Priority(SchedulerPlugin, GroupOrder, PodOrder):
    """Groups by the priority of their class, the pods of a group by their own."""

    def group_key(self, state: GroupState) -> float:
        return -state.group.priority

    def pod_keys(self, group: Group) -> Ints:
        return -group.pod_priority
