"""From the end of a cycle to what is written about it: PodGroup phase and condition, pod conditions, Events, queues.

The texts are upstream's, since people and tools read them; what upstream leaves out is in the record of why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hekla.api.reasons import Reason
from hekla.api.scheduling import PodGroupCondition, PodGroupPhase, PodGroupReason
from hekla.scheduler.arrays.resources import CPU, MEMORY, Floats, Ints
from hekla.scheduler.decision import record_of_why
from hekla.scheduler.grouptext import group_text, is_ready
from hekla.scheduler.plan import (
    Announcement,
    Eviction,
    GroupCondition,
    GroupOutcome,
    Placement,
    Plan,
    Promise,
    QueueOutcome,
    Waiting,
)
from hekla.scheduler.rows import Condition, Pod, PodStatus
from hekla.scheduler.session import GroupState, Session, Tried
from hekla.scheduler.snapshot import IS_ALLOCATED, among, are
from hekla.scheduler.standing import Standing
from hekla.scheduler.storage import ClaimChoice
from hekla.scheduler.tiers import Tiers

NORMAL, WARNING = "Normal", "Warning"
_SCHEDULED_REASON = "tasks in gang are ready to be scheduled"
_IS_WAITING = among((PodStatus.PENDING, PodStatus.ALLOCATED, PodStatus.PIPELINED))


def make_plan(session: Session, tiers: Tiers) -> Plan:
    concerned = session.concerned()
    outcomes = tuple(_group_outcome(session, tiers, state) for state in concerned)
    return Plan(
        cycle_id=session.snapshot.cycle_id,
        placements=tuple(filter(None, (_placement(session, state) for state in concerned))),
        groups=outcomes,
        resting=session.snapshot.resting,
        queues=_queue_outcomes(session),
        due=session.due,
        volume_seconds=session.volume_seconds,
        evictions=tuple(
            Eviction(state.group, state.group.pods[position], reason, None if contender is None else contender.group)
            for state, position, reason, contender in session.evictions
        ),
        promises=tuple(_promises(session, concerned)),
        admitted=tuple(session.admitted),
        failures=tuple(tiers.failures.values()),
        tallies=session.tallies,
        figures=tiers.figures,
        standing=Standing(session, tiers, (state for state, found in zip(concerned, outcomes) if found.decision)),
    )


def _promises(session: Session, states: Sequence[GroupState]) -> Iterator[Promise]:
    nodes = session.snapshot.nodes.rows
    for state in states:
        if state.waiting_pods and state.node is not None:
            for position in np.flatnonzero(are(state.status, PodStatus.PIPELINED) & (state.node >= 0)).tolist():
                yield Promise(state.group.pods[position], nodes[state.node[position]].name)


def _placement(session: Session, state: GroupState) -> Placement | None:
    if state.node is None:
        return None
    positions = np.flatnonzero((state.node >= 0) & are(state.status, PodStatus.BINDING))
    if not len(positions):
        return None
    return Placement(
        state.group,
        positions,
        state.node[positions],
        session.snapshot.nodes,
        _claim_choices(session, state),
        _cards(session, state, positions),
    )


def _cards(session: Session, state: GroupState, positions: Ints) -> dict[str, tuple[int, ...]]:
    if session.cards is None or not session.cards.chosen:
        return {}
    uids = (state.group.pods[position].uid for position in positions.tolist())
    return {uid: session.cards.chosen[uid] for uid in uids if uid in session.cards.chosen}


def _claim_choices(session: Session, state: GroupState) -> dict[str, tuple[ClaimChoice, ...]]:
    """By uid of pods placed in this cycle: what their claims are to get before they can be bound."""
    if state.node is None or not state.group.has_claims:
        return {}
    placed = np.flatnonzero((state.node >= 0) & are(state.status, PodStatus.BINDING)).tolist()
    pods = (state.group.pods[position] for position in placed)
    return {pod.uid: found for pod in pods if (found := tuple(session.volumes.choices(pod.claim_keys)))}


def _group_outcome(session: Session, tiers: Tiers, state: GroupState) -> GroupOutcome:
    verdict = tiers.verdict(state)
    if _waits(state) or state.node is not None or state.refused or state.phase is not state.group.row.phase:
        return _fresh_outcome(session, tiers, state, verdict)
    # Nothing waits and nothing happened to it: the same group comes to the same as in the cycle before.
    known = state.group.memo.get(verdict)
    if not isinstance(known, GroupOutcome):
        # Short of pods it goes on being counted as such; otherwise there is nothing more to say until it changes.
        known = _fresh_outcome(session, tiers, state, verdict, at_rest=verdict is not False)
        state.group.memo[verdict] = known
    return known


def _fresh_outcome(
    session: Session, tiers: Tiers, state: GroupState, verdict: bool | None, *, at_rest: bool = False
) -> GroupOutcome:
    # parity: the phase counts pods by what the API server knows of them, so pods bound in this cycle do not count yet.
    phase = _phase(state, unschedulable=verdict is False)
    has_got_on = _has_got_on(state)
    text = "" if verdict and not _waits(state) and not has_got_on else group_text(state, is_ready(state))
    condition = _condition(state, verdict, text)
    settling = state.counts[PodStatus.BINDING] > 0
    awaited = _claim_choices(session, state)
    decision = record_of_why(session, tiers, state, phase) if _waits(state) or state.refused or awaited else {}
    if awaited:
        decision |= {"reason": str(Reason.WAITING_FOR_VOLUME), "sentence": _awaiting(awaited)}
    return GroupOutcome(
        group=state.group,
        phase=phase,
        running=state.counts[PodStatus.RUNNING],
        succeeded=state.counts[PodStatus.SUCCEEDED],
        failed=state.counts[PodStatus.FAILED],
        condition=condition,
        announcements=_announcements(state, phase, text, has_got_on),
        pod_conditions=() if settling else _pod_conditions(session, state, text),
        missing=_missing(state) if verdict is False else 0,
        settling=settling,
        at_rest=at_rest,
        filling=state.invalid is not None and state.invalid.reason is Reason.GANG_NOT_COMPLETE,
        waiting=_waiting_for_volumes(decision) if awaited else None if settling else _waiting(state, phase, decision),
        decision=decision,
    )


def _awaiting(choices: Mapping[str, Sequence[ClaimChoice]]) -> str:
    distinct = {choice.claim: choice for found in choices.values() for choice in found}
    told = [
        f"{claim.name} for {f'volume {choice.volume}' if choice.volume else f'a volume for {choice.node}'}"
        for claim, choice in sorted(distinct.items())
    ]
    return f"nodes are found; claims wait to be bound: {', '.join(told)}"


def _waiting_for_volumes(decision: dict[str, Any]) -> Waiting:
    return Waiting(decision["reason"], decision["sentence"])


def _waiting(state: GroupState, phase: PodGroupPhase, decision: dict[str, Any]) -> Waiting:
    """The code of a group that waits, and a sentence where no condition has one: a refusal is told in Events only, what
    its queue lacks and where others make room for it nowhere else.

    One that runs does not wait, though more pods than it needs may: why these do is told on them.
    """
    if not decision or phase is PodGroupPhase.RUNNING:
        return Waiting()
    is_promised = decision["reason"] == Reason.WAITING_FOR_ROOM
    if is_promised or (state.held_back is not None and not state.refused and not state.errors):
        return Waiting(decision["reason"], decision["sentence"])
    return Waiting(decision["reason"], "; ".join(unfit.sentence for unfit in state.refused))


def _waits(state: GroupState) -> bool:
    counts = state.counts
    return bool(counts[PodStatus.PENDING] or counts[PodStatus.ALLOCATED] or counts[PodStatus.PIPELINED])


def _phase(state: GroupState, *, unschedulable: bool) -> PodGroupPhase:
    counts, minimum = state.counts, state.group.row.min_member
    if counts[PodStatus.RUNNING] and unschedulable:
        return PodGroupPhase.UNKNOWN
    finished = counts[PodStatus.SUCCEEDED] + counts[PodStatus.FAILED]
    scheduled = finished + counts[PodStatus.BOUND] + counts[PodStatus.RUNNING] + state.leaving_nodes
    if scheduled >= minimum:
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    return PodGroupPhase.INQUEUE if state.phase is PodGroupPhase.INQUEUE else PodGroupPhase.PENDING


def _condition(state: GroupState, verdict: bool | None, text: str) -> GroupCondition | None:
    if verdict is True:
        return GroupCondition(PodGroupCondition.SCHEDULED, _SCHEDULED_REASON, "")
    if verdict is False:
        message = f"{_missing(state)}/{len(state.group.pods)} tasks in gang unschedulable: {text}"
        return GroupCondition(PodGroupCondition.UNSCHEDULABLE, PodGroupReason.NOT_ENOUGH_RESOURCES, message)
    return None


def _missing(state: GroupState) -> int:
    nearly = sum(1 for tried in state.tried.values() if tried.status is PodStatus.ALLOCATED)
    return state.group.row.min_member - (state.ready_pods + nearly)


def _announcements(state: GroupState, phase: PodGroupPhase, text: str, has_got_on: bool) -> tuple[Announcement, ...]:
    told = [Announcement(NORMAL, "Unschedulable", unfit.message) for unfit in state.refused if unfit.told]
    if state.invalid is not None and state.invalid.reason is Reason.PLUGIN_FAILED:
        told.append(Announcement(WARNING, str(Reason.PLUGIN_FAILED), state.invalid.message))
    elif phase in (PodGroupPhase.UNKNOWN, PodGroupPhase.PENDING, PodGroupPhase.INQUEUE):
        pending = state.counts[PodStatus.PENDING]
        message = f"{pending}/{len(state.group.pods)} tasks in gang unschedulable: {text}"
        if has_got_on:
            # parity: upstream warns of each step that a gang takes, the last one excepted.
            told.append(Announcement(WARNING, "Unschedulable", message, passing=True))
        if not state.counts[PodStatus.BINDING]:
            told.append(Announcement(WARNING, "Unschedulable", message))
    else:
        told.append(Announcement(NORMAL, "Scheduled", "pod group is ready"))
    return tuple(told)


def _has_got_on(state: GroupState) -> bool:
    """Whether this cycle has let the group of a Job in, so that its pods can be made, or has placed pods of a group."""
    row = state.group.row
    if len(state.group.pods) == state.counts[PodStatus.RELEASING]:
        return row.of_job and state.phase is PodGroupPhase.INQUEUE and row.phase is not PodGroupPhase.INQUEUE
    if state.node is None:
        return False
    placed = np.flatnonzero((state.node >= 0) & are(state.status, PodStatus.BINDING)).tolist()
    others = sum(state.group.pods[position].in_stead for position in placed)
    own = len(placed) - others
    # parity: c-scheduler-name; where those of another scheduler are enough, upstream finds the gang ready.
    return own > 0 and (not others or state.ready_pods - own < row.min_member)


def _pod_conditions(session: Session, state: GroupState, text: str) -> tuple[tuple[Pod, Condition], ...]:
    if not _waits(state):
        return ()
    waiting = np.flatnonzero(_IS_WAITING[state.status] & ~state.group.gated).tolist()
    return tuple((state.group.pods[position], _pod_condition(session, state, position, text)) for position in waiting)


def _pod_condition(session: Session, state: GroupState, position: int, text: str) -> Condition:
    pod = state.group.pods[position]
    given = state.tried.get(position)
    if given is None:
        line = int(state.node[position]) if state.node is not None else -1
        given = Tried(PodStatus(int(state.status[position])), line, position in state.cleared)
    status, line, cleared = given
    if status in (PodStatus.ALLOCATED, PodStatus.PIPELINED) and line >= 0:
        node = session.snapshot.nodes.rows[line].name
        released = "resource is released and " if status is PodStatus.PIPELINED else ""
        promise = f"can possibly be assigned to {node}, once {released}minAvailable is satisfied"
        message = f"Pod {pod.namespace}/{pod.name} {promise}"
        return Condition("Schedulable" if status is PodStatus.ALLOCATED else "Unschedulable", message, node * cleared)
    error = state.errors.get(position)
    return Condition("Unschedulable", error.text if error is not None else text or "all nodes are unavailable")


def _queue_outcomes(session: Session) -> tuple[QueueOutcome, ...]:
    """What each queue holds, its descendants' included, as of the end of the cycle."""
    held: dict[str, Floats] = {name: np.zeros(len(session.snapshot.columns)) for name in session.queues}
    own = {name: resting.allocated for name, resting in session.snapshot.held.items() if name in held}
    active = {id(state) for state in session.active}
    for state in session.concerned():
        amount = _allocated(session, state)
        # What a group at rest held before it was touched is in the sum already.
        change = amount if id(state) in active else amount - state.group.allocated
        own[state.queue.name] = own[state.queue.name] + change if state.queue.name in own else change
    for queue, amount in own.items():
        name, seen = queue, set[str]()
        while name in held and name not in seen:
            held[name] = held[name] + amount
            seen.add(name)
            name = session.queues[name].parent or ("root" if name != "root" else "")
    columns = session.snapshot.columns
    return tuple(
        QueueOutcome(name, {CPU: 0.0, MEMORY: 0.0, **columns.amounts(amount)}) for name, amount in held.items()
    )


def _allocated(session: Session, state: GroupState) -> Floats:
    if state.node is None:
        return state.group.allocated
    shapes = state.group.shape[IS_ALLOCATED[state.status]]
    total: Floats = session.snapshot.requests[shapes].sum(axis=0)
    return total
