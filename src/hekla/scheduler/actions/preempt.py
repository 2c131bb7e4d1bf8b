"""Room for important groups, at the cost of less important ones in the same queue.

A group that lacks its minimum is promised the room of running pods, which are evicted; the pods themselves come
onto their nodes in a later cycle, when the room is free. All of a group's evictions happen or none does.
"""

from __future__ import annotations

import heapq
from functools import partial

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.fits import covers
from hekla.scheduler.displacing import Rules, make_room, make_room_for_group, pods_to_try
from hekla.scheduler.queuegates import queue_room
from hekla.scheduler.residents import Contender, Resident, Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.statement import Statement
from hekla.scheduler.tiers import Tiers

REASON = "preempt"
_STATUSES = (PodStatus.BOUND, PodStatus.RUNNING)


def execute(session: Session, tiers: Tiers) -> None:
    for name, hungry in hungry_groups(session, tiers).items():
        # parity: who asks for a network topology displaces nobody, not even where that is only a wish.
        states = [state for state in hungry if not state.group.row.has_topology]
        mates = [state for state in session.groups if state.queue.name == name]
        residents = Residents(session, mates, _STATUSES)
        may_try = partial(_may_preempt, session, tiers)
        for state in states:
            rules = _RulesFor(session, tiers, residents, state, inside=False)
            make_room_for_group(session, tiers, state, may_try, rules)
        for state in states:
            _inside_group(session, tiers, residents, state)


def hungry_groups(session: Session, tiers: Tiers) -> dict[str, list[GroupState]]:
    """Groups below what they need, by queue; queues and groups in their order."""
    heaps: dict[str, list[tuple[tuple[object, ...], int, GroupState]]] = {}
    for number, state in enumerate(session.active):
        if _is_hungry(state, tiers):
            heaps.setdefault(state.queue.name, []).append((tiers.group_key(state), number, state))
    for heap in heaps.values():
        heapq.heapify(heap)
    order = sorted(heaps, key=lambda name: tiers.queue_key(session.queues[name]))
    return {name: [heapq.heappop(heaps[name])[2] for _ in range(len(heaps[name]))] for name in order}


def _is_hungry(state: GroupState, tiers: Tiers) -> bool:
    if state.phase is PodGroupPhase.PENDING or not state.counts[PodStatus.PENDING]:
        return False
    try:
        return tiers.group_starving(state) and tiers.group_valid(state) is None
    except Exception as error:
        state.invalid = tiers.unfit_after(error)
        return False


def _inside_group(session: Session, tiers: Tiers, residents: Residents, state: GroupState) -> None:
    """Pods left over, from less important pods of their own group, one at a time."""
    rules = _RulesFor(session, tiers, residents, state, inside=True)
    try:
        for contender in pods_to_try(session, tiers, state):
            statement = Statement(session)
            if not _may_preempt(session, tiers, contender):
                return
            if not make_room(session, tiers, statement, contender, rules(contender)):
                return
            statement.commit()
    except Exception as error:
        state.invalid = tiers.unfit_after(error)


class _RulesFor:
    """The rules for one group; a pod that asks for nothing does not displace one that asked for something."""

    def __init__(
        self, session: Session, tiers: Tiers, residents: Residents, state: GroupState, *, inside: bool
    ) -> None:
        self._session, self._tiers, self._residents = session, tiers, residents
        self._state, self._inside = state, inside

    def __call__(self, contender: Contender) -> Rules:
        modest = self._session.snapshot.shapes[contender.shape].best_effort
        return Rules(
            reason=REASON,
            residents=self._residents,
            concerns=self._modest if modest else self._any,
            allowed=self._tiers.preemptable,
            by_score=True,
            needs_candidates=False,
            room_suffices=False,
            counted=True,
        )

    def _any(self, resident: Resident) -> bool:
        return (resident.state is self._state) == self._inside

    def _modest(self, resident: Resident) -> bool:
        return self._any(resident) and self._session.snapshot.shapes[resident.shape].best_effort


def _may_preempt(session: Session, tiers: Tiers, contender: Contender) -> bool:
    """Not while room that was made for the pod earlier is there or on its way."""
    pod = contender.pod
    if not pod.preempts:
        return False
    line = session.lines.get(pod.nominated)
    if line is None:
        return True
    refusals = [refusal for refusal in tiers.refusals(contender.of) if refusal.nodes[line]]
    if any(refusal.final for refusal in refusals):
        return True
    if not refusals and covers(session.free_later_on(line), session.request(contender.shape)):
        # It fits there and what stops it is its queue: only another pod's leaving can help.
        return not queue_room(session, tiers, contender.state, contender.shape, 1, pod.queue_gate)[0]
    return not _somebody_is_leaving(session, pod.nominated, pod.priority)


def _somebody_is_leaving(session: Session, node: str, priority: int) -> bool:
    return any(
        pod.node == node and pod.priority < priority
        for state in session.groups
        if state.group.counts[PodStatus.RELEASING]
        for pod in state.group.pods
        if pod.status is PodStatus.RELEASING
    )
