"""From the end of a cycle to statuses and words: PodGroup phase and condition, pod conditions, events, the record of
why.

The texts are upstream's, since people and tools read them; what upstream leaves out is in the decision record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hekla.api.reasons import Reason
from hekla.api.scheduling import PodGroupCondition, PodGroupPhase, PodGroupReason
from hekla.scheduler.arrays.resources import CPU, MEMORY, Floats, Ints
from hekla.scheduler.fit import FitError, Unfit
from hekla.scheduler.placing import explain
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
from hekla.scheduler.rows import Condition, Pod, PodStatus, show_amount
from hekla.scheduler.session import READY_STATUSES, GroupState, PodClass, Session, Tried
from hekla.scheduler.snapshot import IS_ALLOCATED, among, are
from hekla.scheduler.standing import Standing
from hekla.scheduler.storage import ClaimChoice
from hekla.scheduler.subgroups import subgroups_of
from hekla.scheduler.tiers import Tiers

NORMAL, WARNING = "Normal", "Warning"
_SCHEDULED_REASON = "tasks in gang are ready to be scheduled"
_STATUS_TEXTS = tuple(status.text for status in PodStatus)
_MOST_NODES = 3  # named where pods will go
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


def group_text(state: GroupState, ready: bool) -> str:
    """Upstream's sentence about a group: ready or not, its pods by status, why the pending ones wait."""
    counted = [f"{count} {status}" for status, count in zip(_STATUS_TEXTS, state.counts) if count]
    counted.append(f"{state.group.row.min_member} minAvailable")
    text = f"pod group is {'ready' if ready else 'not ready'}, {', '.join(sorted(counted))}"
    if state.counts[PodStatus.PENDING]:
        text += f"; Pending: {_pending_reasons(state)}"
    origin = _origin(state)
    if origin is not None:
        text += f". Origin reason is {state.group.pods[origin].name}: {state.errors[origin].text}"
    return text


def _origin(state: GroupState) -> int | None:
    """The first pod that nodes were asked about, in vain."""
    return min(state.errors, key=lambda position: (bool(state.errors[position].said_of), position), default=None)


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
    text = "" if verdict and not _waits(state) and not has_got_on else group_text(state, _is_ready(state))
    condition = _condition(state, verdict, text)
    settling = state.counts[PodStatus.BINDING] > 0
    awaited = _claim_choices(session, state)
    decision = _decision(session, tiers, state, phase) if _waits(state) or state.refused or awaited else {}
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


def _is_ready(state: GroupState) -> bool:
    return state.ready_pods + state.pending_best_effort >= state.group.row.min_member


def _phase(state: GroupState, *, unschedulable: bool) -> PodGroupPhase:
    counts, minimum = state.counts, state.group.row.min_member
    if counts[PodStatus.RUNNING] and unschedulable:
        return PodGroupPhase.UNKNOWN
    finished = counts[PodStatus.SUCCEEDED] + counts[PodStatus.FAILED]
    scheduled = finished + counts[PodStatus.BOUND] + counts[PodStatus.RUNNING] + state.leaving_nodes
    if scheduled >= minimum:
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    return PodGroupPhase.INQUEUE if state.phase is PodGroupPhase.INQUEUE else PodGroupPhase.PENDING


def _pending_reasons(state: GroupState) -> str:
    pending = np.flatnonzero(are(state.status, PodStatus.PENDING)).tolist()
    reasons = Counter(_pending_reason(state, position) for position in pending)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _pending_reason(state: GroupState, position: int) -> str:
    tried = state.tried.get(position)
    return "Schedulable" if tried is not None and tried.status is PodStatus.ALLOCATED else "Unschedulable"


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


def _decision(session: Session, tiers: Tiers, state: GroupState, phase: PodGroupPhase) -> dict[str, Any]:
    """Everything `why` needs, as plain JSON: the code, one sentence, clauses with node counts, and the arithmetic."""
    row = state.group.row
    origin = _origin(state)
    error = state.errors[origin] if origin is not None else None
    if error is None and state.held_back is not None:
        try:
            origin, error = _hopeless(session, tiers, state)
        except Exception as failed:
            # That its queue holds it back is true whatever a plugin makes of it.
            tiers.unfit_after(failed)
    reason = _decision_reason(state, error)
    resources = _resource_records(session, tiers, state, origin, error) if origin is not None else []
    return {
        "group": {"namespace": row.key.namespace, "name": row.key.name, "uid": row.uid},
        "queue": state.queue.name,
        "phase": str(phase),
        "reason": str(reason),
        "sentence": _sentence(session, state, reason, error, resources),
        "minMember": row.min_member,
        "pods": {status.text: count for status, count in zip(PodStatus, state.counts) if count},
        "nodes": len(session.snapshot.nodes),
        "clauses": [
            {"reason": str(clause.reason), "text": clause.text, "nodes": clause.nodes}
            for clause in (error.clauses if error is not None else ())
        ],
        "resources": resources,
        "subgroups": _subgroup_records(state),
        "objections": [
            {"reason": str(unfit.reason), "text": unfit.sentence}
            for unfit in [*state.refused, state.held_back, state.invalid]
            if unfit is not None
        ],
    }


def _hopeless(session: Session, tiers: Tiers, state: GroupState) -> tuple[int | None, FitError | None]:
    """A pod that its queue holds back and no node would take either, however empty; then that is the matter."""
    wanted = np.flatnonzero(are(state.status, PodStatus.PENDING) & ~state.group.gated & ~state.group.best_effort)
    for position in tiers.pods_in_order(state.group, wanted)[:1].tolist():
        of = session.class_of(state, position)
        key = (_hopeless, of)
        if key not in session.memo:
            session.memo[key] = _refused_when_empty(session, tiers, of)
        if session.memo[key] is not None:
            return position, session.memo[key]
    return None, None


def _refused_when_empty(session: Session, tiers: Tiers, of: PodClass) -> FitError | None:
    empty = session.snapshot.nodes.allocatable
    takes = np.all(empty >= session.request(of.shape), axis=1) & ~tiers.ruled_out(of)
    if np.any(takes):
        return None
    return explain(session, tiers, of, empty)


def _decision_reason(state: GroupState, error: FitError | None) -> Reason:
    if state.refused:
        return state.refused[0].reason
    if state.invalid is not None:
        return state.invalid.reason
    if state.counts[PodStatus.PIPELINED] and not state.counts[PodStatus.PENDING]:
        return Reason.WAITING_FOR_ROOM
    if error is not None:
        return error.reason
    if state.held_back is not None:
        return state.held_back.reason
    if bool(state.group.gated.any()):
        return Reason.WAITING_FOR_GATE
    return Reason.NOT_ENOUGH_RESOURCES


def _sentence(
    session: Session, state: GroupState, reason: Reason, error: FitError | None, resources: list[dict[str, Any]]
) -> str:
    objections: list[Unfit | None] = [*state.refused, state.invalid]
    said = [unfit.sentence for unfit in objections if unfit is not None]
    if said:
        return "; ".join(said)
    if reason is Reason.WAITING_FOR_ROOM and state.node is not None:
        return _promised(session, state.node[are(state.status, PodStatus.PIPELINED)])
    if error is not None:
        lacking = [
            f"{item['name']}: a pod asks for {item['wanted']}, {_most(item)}" for item in resources if not item["fits"]
        ]
        lacking += [clause.words for clause in error.clauses if clause.words]
        return f"{_subgroup_prefix(state)}{error.text} {'; '.join(lacking)}".strip()
    if state.held_back is not None:
        return _short_of(session, state, state.held_back)
    if reason is Reason.WAITING_FOR_GATE:
        gated = int(np.count_nonzero(state.group.gated & are(state.status, PodStatus.PENDING)))
        return f"{gated} of {len(state.group.pods)} pods are held by scheduling gates"
    return group_text(state, _is_ready(state))


def _promised(session: Session, lines: Ints) -> str:
    """Where pods go that wait for others to leave."""
    nodes = [session.snapshot.nodes.rows[line].name for line in np.unique(lines[lines >= 0]).tolist()]
    named = ", ".join([*nodes[:_MOST_NODES], *(["…"] if nodes[_MOST_NODES:] else [])])
    noun = "pod starts" if len(lines) == 1 else "pods start"
    return f"{len(lines)} {noun} on {named} once those that are being stopped there are gone"


def _short_of(session: Session, state: GroupState, objection: Unfit) -> str:
    """What the cluster lacks for all pods that have to start together, where it is the cluster that sets the limit."""
    wanting = state.group.row.min_member - state.ready_pods
    pending = np.flatnonzero(are(state.status, PodStatus.PENDING))[: max(1, wanting)]
    if objection.reason is not Reason.NOT_ENOUGH_RESOURCES or not len(pending):
        return objection.sentence
    asked: Floats = session.snapshot.requests[state.group.shape[pending]].sum(axis=0)
    free = session.free_in_all() if not state.waiting_pods else _free_for(session, state).sum(axis=0)
    told = []
    for column in np.flatnonzero(asked > free).tolist():
        name = session.snapshot.columns.names[column]
        figures = (asked[column], free[column], session.total[column])
        wanted, left, total = (show_amount(name, float(figure)) for figure in figures)
        told.append(f"{name}: {_counted(len(pending))} for {wanted}, {left} of {total} in the whole cluster are free")
    return "; ".join(told) or objection.sentence


def _counted(pods: int) -> str:
    return "a pod asks" if pods == 1 else f"{pods} pods ask"


def _most(resource: dict[str, Any]) -> str:
    if resource["total"] == "0":
        return "no node has any"
    if not resource["possible"]:
        return f"the largest node it may use has {resource['largest']}"
    return f"the roomiest node has {resource['mostFree']} free"


def _subgroup_prefix(state: GroupState) -> str:
    """Whose pod the first error is about, where the group is divided."""
    failing = [record["name"] for record in _subgroup_records(state) if record["error"] and record["name"]]
    return f"subgroup {', '.join(failing)}: " if failing else ""


def _subgroup_records(state: GroupState) -> list[dict[str, Any]]:
    """How far each subgroup has come, and what a pod of it fails at."""
    if not state.group.row.subgroup_policies:
        return []
    subgroups = subgroups_of(state.group)
    held = subgroups.held(state, READY_STATUSES, best_effort=False).tolist()
    told = sorted(state.errors.items(), key=lambda item: (not item[1].said_of, -item[0]))
    errors = {int(subgroups.of[position]): error.text for position, error in told}
    return [
        {"name": subgroup.name, "size": subgroup.size, "placed": count, "error": errors.get(position, "")}
        for position, (subgroup, count) in enumerate(zip(subgroups.each, held))
    ]


def _free_for(session: Session, state: GroupState) -> Floats:
    """What will be free on each node; what is promised to pods of the group itself is not taken by others."""
    free = session.free_later()
    if state.waiting_pods and state.node is not None:
        promised = np.flatnonzero(are(state.status, PodStatus.PIPELINED) & (state.node >= 0))
        free = free.copy()
        np.add.at(free, state.node[promised], session.snapshot.requests[state.group.shape[promised]])
    return free


def _resource_records(
    session: Session, tiers: Tiers, state: GroupState, position: int, error: FitError | None
) -> list[dict[str, Any]]:
    """What a pod asks for beside what there is; the roomiest node is one of those that would take it at all.

    None where no node would, however empty, and not for its size: then amounts are not the matter.
    """
    of = session.class_of(state, position)
    request, free = session.request(of.shape), _free_for(session, state)
    allowed = tiers.node_mask(of)
    if allowed is not None and not allowed.any() and error is not None and error.reason is Reason.NOT_ENOUGH_RESOURCES:
        allowed = None
    suited, sizes = (
        table if allowed is None else table[allowed] for table in (free, session.snapshot.nodes.allocatable)
    )
    if len(free) and not len(suited):
        return []
    records = []
    for column, name in enumerate(session.snapshot.columns.names):
        if request[column] > 0:
            most, largest = (float(table[:, column].max(initial=0.0)) for table in (suited, sizes))
            records.append(
                {
                    "name": name,
                    "wanted": show_amount(name, float(request[column])),
                    "mostFree": show_amount(name, most),
                    "free": show_amount(name, float(free[:, column].sum())),
                    "total": show_amount(name, float(session.total[column])),
                    "largest": show_amount(name, largest),
                    "fits": most >= float(request[column]),
                    "possible": largest >= float(request[column]),
                }
            )
    return records
