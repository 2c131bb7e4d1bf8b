"""All or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hekla.api.reasons import Reason
from hekla.scheduler.extension import (
    GroupOrder,
    GroupPipelined,
    GroupReady,
    GroupStarving,
    GroupValid,
    Preemptable,
    Reclaimable,
    SchedulerPlugin,
    SubgroupOrder,
    SubgroupPipelined,
    SubgroupReady,
    Verdict,
    Vote,
)
from hekla.scheduler.fit import Unfit
from hekla.scheduler.minimum import role_minima
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import READY_STATUSES, GroupState
from hekla.scheduler.subgroups import subgroups_of

_VALID_STATUSES = (*READY_STATUSES, PodStatus.PIPELINED, PodStatus.PENDING)
_PIPELINED_STATUSES = (*READY_STATUSES, PodStatus.PIPELINED)


class Gang(
    SchedulerPlugin,
    GroupValid,
    GroupOrder,
    GroupReady,
    GroupPipelined,
    GroupStarving,
    SubgroupOrder,
    SubgroupReady,
    SubgroupPipelined,
    Preemptable,
    Reclaimable,
    Verdict,
):
    """A group holds at least min_member pods, the minimum of each role and of whole subgroups, or nothing."""

    def group_valid(self, state: GroupState) -> Unfit | None:
        row = state.group.row
        if row.unsupported:
            return Unfit(Reason.UNSUPPORTED, f"not supported yet: {', '.join(row.unsupported)}")
        if not _roles_hold(state, _VALID_STATUSES, best_effort=False):
            text = "Not enough valid pods of each task for gang-scheduling"
            return Unfit(Reason.GANG_NOT_COMPLETE, text, "; ".join(_short_roles(state)))
        if not _subgroups_hold(state, _VALID_STATUSES, best_effort=False):
            text = "Not enough valid subGroups of each task for gang-scheduling"
            return Unfit(Reason.GANG_NOT_COMPLETE, text)
        if state.valid_pods < row.min_member:
            text = f"Not enough valid tasks for gang-scheduling, valid: {state.valid_pods}, min: {row.min_member}"
            return Unfit(Reason.GANG_NOT_COMPLETE, text, f"{state.valid_pods} of {row.min_member} pods are there")
        return None

    def group_key(self, state: GroupState) -> float:
        return 1.0 if self.group_ready(state) else 0.0

    def group_ready(self, state: GroupState) -> bool:
        enough = state.ready_pods + state.pending_best_effort >= state.group.row.min_member
        return enough and _parts_hold(state, READY_STATUSES)

    def pods_missing(self, state: GroupState, role: int) -> int:
        missing = state.group.row.min_member - state.ready_pods - state.pending_best_effort
        minima = role_minima(state.group.row)
        if not minima:
            return missing
        lacking = {name: minimum - _held(state, name, READY_STATUSES) for name, minimum in minima.items()}
        own = lacking.pop(state.group.roles[role], 0)
        if any(count > 0 for count in lacking.values()):
            # Another role is short: no number of pods of this one makes the group ready.
            return len(state.group.pods)
        return max(missing, own)

    def group_pipelined(self, state: GroupState) -> Vote:
        held = state.ready_pods + state.waiting_pods + state.pending_best_effort
        enough = held >= state.group.row.min_member
        return Vote.PERMIT if enough and _parts_hold(state, _PIPELINED_STATUSES) else Vote.REJECT

    def subgroup_key(self, state: GroupState, subgroup: int) -> float:
        return 1.0 if self.subgroup_ready(state, subgroup) else 0.0

    def subgroup_ready(self, state: GroupState, subgroup: int) -> bool:
        return self.subgroup_missing(state, subgroup) <= 0

    def subgroup_missing(self, state: GroupState, subgroup: int) -> int:
        return _missing_in_subgroup(state, subgroup, READY_STATUSES)

    def subgroup_pipelined(self, state: GroupState, subgroup: int) -> Vote:
        return Vote.PERMIT if _missing_in_subgroup(state, subgroup, _PIPELINED_STATUSES) <= 0 else Vote.REJECT

    def group_starving(self, state: GroupState) -> bool:
        return state.ready_pods + state.waiting_pods < state.group.row.min_member

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        """Of every group as many as it holds beyond its minimum."""
        spare: dict[int, int] = {}
        allowed = []
        for resident in candidates:
            state = resident.state
            left = spare.get(id(state), state.ready_pods - state.group.row.min_member)
            if left > 0:
                allowed.append(resident)
            spare[id(state)] = left - 1
        return allowed

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return self.preemptable(contender, candidates)

    def verdict(self, state: GroupState) -> bool | None:
        if not state.group.pods:
            return None
        if state.ready_pods + state.pending_best_effort >= state.group.row.min_member:
            return True
        return None if _only_leaving(state) else False


def _parts_hold(state: GroupState, statuses: tuple[PodStatus, ...]) -> bool:
    return _roles_hold(state, statuses, best_effort=True) and _subgroups_hold(state, statuses, best_effort=True)


def _subgroups_hold(state: GroupState, statuses: tuple[PodStatus, ...], *, best_effort: bool) -> bool:
    if not state.group.row.subgroup_policies:
        return True
    subgroups = subgroups_of(state.group)
    return subgroups.enough(state, subgroups.whole(state, statuses, best_effort=best_effort))


def _missing_in_subgroup(state: GroupState, subgroup: int, statuses: tuple[PodStatus, ...]) -> int:
    subgroups = subgroups_of(state.group)
    return subgroups.each[subgroup].size - int(subgroups.held(state, statuses, best_effort=True)[subgroup])


def _roles_hold(state: GroupState, statuses: tuple[PodStatus, ...], *, best_effort: bool) -> bool:
    return all(
        _held(state, role, statuses, best_effort=best_effort) >= minimum
        for role, minimum in role_minima(state.group.row).items()
    )


def _short_roles(state: GroupState) -> Iterator[str]:
    for role, minimum in role_minima(state.group.row).items():
        held = _held(state, role, _VALID_STATUSES, best_effort=False)
        if held < minimum:
            yield f"{held} of {minimum} pods of task {role} are there"


def _held(state: GroupState, role: str, statuses: tuple[PodStatus, ...], *, best_effort: bool = True) -> int:
    if role not in state.group.roles:
        return 0
    position = state.group.roles.index(role)
    counts = state.counts_of_role(position)
    waiting = state.pending_best_effort_of_role(position) if best_effort else 0
    return sum(counts[status] for status in statuses) + waiting


def _only_leaving(state: GroupState) -> bool:
    """Short only because pods are on their way out, with nobody waiting: not a failure to schedule."""
    counts = state.counts
    if counts[PodStatus.PENDING] or counts[PodStatus.PIPELINED]:
        return False
    leaving = state.leaving_nodes
    placed = sum(
        counts[status] for status in (PodStatus.BOUND, PodStatus.RUNNING, PodStatus.SUCCEEDED, PodStatus.FAILED)
    )
    return leaving > 0 and placed + leaving >= state.group.row.min_member
