"""Room for whole gangs: queue by queue, group by group, each group's statement kept or discarded as one.

A group is given pods until it is ready, then yields; every further pod costs it another turn, so that queues and
groups share what is left. Pods of one shape that follow each other are placed in one step. A group in subgroups is
given whole subgroups, each in a statement of its own.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.fits import covers
from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.fit import FitError
from hekla.scheduler.placing import explain, nodes_for
from hekla.scheduler.queuegates import queue_room
from hekla.scheduler.rows import PodStatus, QueueGate
from hekla.scheduler.session import READY_STATUSES, GroupState, PodClass, Session
from hekla.scheduler.snapshot import are
from hekla.scheduler.statement import Statement
from hekla.scheduler.subgroups import subgroups_in_order, subgroups_of
from hekla.scheduler.tiers import Tiers

_QueueKey = tuple[object, ...]


@dataclass(slots=True)
class _Run:
    """Pods that follow each other and are alike in class and role."""

    positions: Ints
    of: PodClass
    role: int
    gate: QueueGate = QueueGate.NONE
    nominated: int = -1  # the node on which room was made for it; such a run is one pod


@dataclass(slots=True)
class _Work:
    """A group and its pods still to be placed, in order."""

    state: GroupState
    runs: list[_Run]
    tiebreak: int
    subgroup: int | None = None  # the runs are those of this subgroup
    subgroups: list[_Work] = field(default_factory=list)  # what a group in subgroups has instead of runs of its own

    @property
    def next_run(self) -> _Run:
        return self.runs[0] if self.runs else self.subgroups[0].runs[0]

    @property
    def is_left(self) -> bool:
        return bool(self.runs or self.subgroups)

    def drop(self) -> None:
        self.runs.clear()
        self.subgroups.clear()


def execute(session: Session, tiers: Tiers) -> None:
    heaps = _worksheets(session, tiers)
    queues = [(tiers.queue_key(session.queues[name]), name) for name in heaps]
    heapq.heapify(queues)
    while queues:
        before, name = _next_queue(session, tiers, queues)
        queue, heap = session.queues[name], heaps[name]
        if not heap or tiers.queue_overused(queue):
            _say_held_back(heap, tiers)
            continue
        _, _, work = heapq.heappop(heap)
        alone = not heap and not queues and not tiers.may_overuse_room
        _take_turn(session, tiers, work, alone)
        if work.is_left:
            heapq.heappush(heap, (tiers.group_key(work.state), work.tiebreak, work))
        # The last one is compared with nobody.
        after = tiers.queue_key(queue) if queues else ()
        if _has_fallen(before, after):
            queues = [(tiers.queue_key(session.queues[other]), other) for _, other in queues]
            heapq.heapify(queues)
        heapq.heappush(queues, (after, name))


def _next_queue(session: Session, tiers: Tiers, queues: list[tuple[_QueueKey, str]]) -> tuple[_QueueKey, str]:
    """The first queue by what holds now, and its key.

    What a queue is given may put its relatives back as well; those it brings forward have been looked at by then. So
    the first of the heap is the first of all once its key has been looked at again and it is still there.
    """
    fresh: set[str] = set()
    key, name = heapq.heappop(queues)
    while queues and name not in fresh:
        fresh.add(name)
        key, name = heapq.heappushpop(queues, (tiers.queue_key(session.queues[name]), name))
    return key, name


def _has_fallen(before: _QueueKey, after: _QueueKey) -> bool:
    """Whether a part of a queue's key is smaller after its turn: that brings those forward which have it in common.

    So it is in a tree of departments: they count for as much as the hungriest child that has anything, and now it has.
    """
    parts = ((old, new) for old, new in zip(before, after) if isinstance(old, tuple) and isinstance(new, tuple))
    return any(smaller < larger for old, new in parts for larger, smaller in zip(old, new))


def _worksheets(session: Session, tiers: Tiers) -> dict[str, list[tuple[tuple[object, ...], int, _Work]]]:
    heaps: dict[str, list[tuple[tuple[object, ...], int, _Work]]] = {}
    for number, state in enumerate(session.active):
        work = _work_of_candidate(session, tiers, state, number)
        if work.is_left:
            heaps.setdefault(state.queue.name, []).append((tiers.group_key(state), number, work))
    for heap in heaps.values():
        heapq.heapify(heap)
    return heaps


def _work_of_candidate(session: Session, tiers: Tiers, state: GroupState, number: int) -> _Work:
    try:
        if _is_candidate(session, tiers, state):
            return _work(session, tiers, state, number)
    except Exception as error:
        state.invalid = tiers.unfit_after(error)
    return _Work(state, [], number)


def _work(session: Session, tiers: Tiers, state: GroupState, number: int) -> _Work:
    group = state.group
    held = group.gated & ~group.at_queue_gate
    wanted = np.flatnonzero(are(state.status, PodStatus.PENDING) & ~held & ~group.best_effort)
    if not group.row.subgroup_policies:
        return _Work(state, _runs(session, tiers, state, wanted), number)
    of = subgroups_of(group).of[wanted]
    works = [
        _Work(state, _runs(session, tiers, state, wanted[of == subgroup]), number, subgroup)
        for subgroup in subgroups_in_order(tiers, state, np.unique(of).tolist())
    ]
    return _Work(state, [], number, subgroups=works)


def _is_candidate(session: Session, tiers: Tiers, state: GroupState) -> bool:
    if state.phase is PodGroupPhase.PENDING:
        if "enqueue" in session.action_names:
            return False
        state.phase = PodGroupPhase.INQUEUE
    if not state.counts[PodStatus.PENDING]:
        return False
    state.invalid = tiers.group_valid(state)
    return state.invalid is None


def _runs(session: Session, tiers: Tiers, state: GroupState, wanted: Ints) -> list[_Run]:
    group = state.group
    if not len(wanted):
        return []
    if len(wanted) == 1:
        return [_run(session, state, wanted, _nominated_lines(session, state, wanted))]
    ordered = tiers.pods_in_order(group, wanted)
    nominated = _nominated_lines(session, state, ordered)
    shapes, roles = group.shape[ordered], group.role[ordered]
    differ = (np.diff(shapes) != 0) | (np.diff(roles) != 0)
    if session.crowd.active:
        differ |= np.diff([session.crowd.kin(group.pods[at]) for at in ordered.tolist()]) != 0
    if session.families.active:
        differ |= np.diff([session.families.number(group.pods[at]) for at in ordered.tolist()]) != 0
    if session.images.active:
        differ |= np.diff([session.images.number(group.pods[at]) for at in ordered.tolist()]) != 0
    if session.tags:
        tags = [session.tags.get(group.pods[at].uid, -1) for at in ordered.tolist()]
        differ |= np.diff(tags) != 0
    if group.has_claims:
        claims = [group.pods[at].claims for at in ordered.tolist()]
        differ |= np.array([one != other for one, other in pairwise(claims)], dtype=bool)
    if group.has_queue_gates:
        differ |= np.diff([group.pods[at].queue_gate for at in ordered.tolist()]) != 0
    if nominated is not None:
        differ |= (nominated[1:] >= 0) | (nominated[:-1] >= 0)
    cuts = np.flatnonzero(differ) + 1
    starts = [0, *cuts.tolist()]
    ends = [*cuts.tolist(), len(ordered)]
    return [
        _run(session, state, ordered[start:end], None if nominated is None else nominated[start:end])
        for start, end in zip(starts, ends)
    ]


def _run(session: Session, state: GroupState, positions: Ints, nominated: Ints | None) -> _Run:
    group, first = state.group, int(positions[0])
    return _Run(
        positions,
        session.class_of(state, first),
        int(group.role[first]),
        group.pods[first].queue_gate,
        -1 if nominated is None else int(nominated[0]),
    )


def _nominated_lines(session: Session, state: GroupState, positions: Ints) -> Ints | None:
    """For each pod the line of the node on which room was made for it, -1 for none; None where no pod has one."""
    if not state.group.has_nominated:
        return None
    pods = state.group.pods
    return np.array([session.lines.get(pods[at].nominated, -1) for at in positions.tolist()], dtype=np.int64)


def _take_turn(session: Session, tiers: Tiers, work: _Work, alone: bool) -> None:
    """Place pods until the group is ready; keep all of it or nothing."""
    statement = Statement(session)
    try:
        if work.subgroups:
            _fill_subgroups(session, tiers, work, statement)
        else:
            _fill(session, tiers, work, statement, alone)
    except Exception as error:
        statement.discard()
        work.state.invalid = tiers.unfit_after(error)
        work.drop()


def _fill(session: Session, tiers: Tiers, work: _Work, statement: Statement, alone: bool) -> None:
    state = work.state
    while work.runs:
        missing = tiers.pods_missing(state, work.runs[0].role)
        placed, stop = _place_run(session, tiers, work, statement, missing, alone)
        # With less than what is missing the group cannot be ready: no need to ask.
        if stop or (placed >= missing and tiers.group_ready(state) and not (alone and work.runs)):
            break
    _conclude(tiers, work, statement)


def _fill_subgroups(session: Session, tiers: Tiers, work: _Work, statement: Statement) -> None:
    """Whole subgroups one after the other until the group is ready; one that does not fit is passed over."""
    while work.subgroups:
        part = work.subgroups.pop(0)
        if _fill_subgroup(session, tiers, part, statement) and part.runs:
            # What it has beyond its size comes after the others.
            work.subgroups.append(part)
        if tiers.group_ready(work.state):
            break
    _conclude(tiers, work, statement)


def _fill_subgroup(session: Session, tiers: Tiers, part: _Work, statement: Statement) -> bool:
    """Place pods of one subgroup until it is whole; False, with nothing placed, where it does not come to that."""
    state, subgroup = part.state, part.subgroup
    assert subgroup is not None
    state.failed_roles = ()
    trial = Statement(session)
    try:
        while part.runs:
            missing = tiers.subgroup_missing(state, subgroup)
            placed, stop = _place_run(session, tiers, part, trial, missing, alone=False)
            if stop or (placed and tiers.subgroup_ready(state, subgroup)):
                break
        whole = tiers.subgroup_ready(state, subgroup) or tiers.subgroup_pipelined(state, subgroup)
    except Exception:
        trial.discard()
        raise
    if not trial.steps or not whole:
        trial.discard()
        return False
    statement.merge(trial)
    return True


def _conclude(tiers: Tiers, work: _Work, statement: Statement) -> None:
    state = work.state
    if tiers.group_ready(state):
        statement.commit()
        return
    work.drop()
    if not statement.steps or not tiers.group_pipelined(state):
        statement.discard()


def _place_run(
    session: Session, tiers: Tiers, work: _Work, statement: Statement, missing: int, alone: bool
) -> tuple[int, bool]:
    """Place the next run as far as it is needed and goes: how many were placed, and whether the turn is over."""
    state, run = work.state, work.runs[0]
    if run.gate is QueueGate.SHUT:
        _let_in(session, tiers, work)
        return 0, False
    if run.role in state.failed_roles and state.group.roles[run.role]:
        work.runs.pop(0)
        if queue_room(session, tiers, state, run.of.shape, 1, run.gate)[0]:
            _pass_over(state, run.positions, run.role)
        return 0, False
    wanted = min(len(run.positions), missing)
    if missing == 1 and alone and tiers.group_ready(state):
        wanted = len(run.positions)
    allowed, objection = queue_room(session, tiers, state, run.of.shape, wanted, run.gate)
    placed = _place(session, tiers, state, run, allowed, statement)
    if placed < allowed:
        return placed, _give_up(session, tiers, work, run.positions[placed:], run)
    if allowed < wanted:
        # What the queue does not allow now it will not allow later in this cycle.
        state.held_back = objection
        work.runs.pop(0)
        return placed, False
    _advance(work, placed)
    return placed, False


def _let_in(session: Session, tiers: Tiers, work: _Work) -> None:
    """Pods at the gate of their queue get through as far as it has room, and are placed by a later cycle."""
    state, run = work.state, work.runs.pop(0)
    allowed, objection = tiers.queue_room(state, run.of.shape, len(run.positions))
    session.let_in(state, run.positions[:allowed], run.of.shape)
    state.held_back = state.held_back or objection


def _place(session: Session, tiers: Tiers, state: GroupState, run: _Run, count: int, statement: Statement) -> int:
    """Place up to `count` pods of the run: on what is free now, then on what will be."""
    placed = 0
    if count and run.nominated >= 0 and _place_where_nominated(session, tiers, state, run, statement):
        return 1
    while placed < count:
        status, nodes = PodStatus.ALLOCATED, nodes_for(session, tiers, run.of, count - placed, at_once=True)
        if not len(nodes) and session.has_later:
            status = PodStatus.PIPELINED
            nodes = nodes_for(session, tiers, run.of, count - placed, at_once=False)
        if not len(nodes):
            break
        statement.place(state, run.positions[placed : placed + len(nodes)], nodes, run.of.shape, status)
        placed += len(nodes)
    return placed


def _place_where_nominated(session: Session, tiers: Tiers, state: GroupState, run: _Run, statement: Statement) -> bool:
    line, request = run.nominated, session.request(run.of.shape)
    mask = tiers.node_mask(run.of)
    if (mask is not None and not mask[line]) or not covers(session.free_later_on(line), request):
        return False
    at_once = tiers.node_mask_now(run.of)
    now = bool(covers(session.idle[line], request)) and (at_once is None or bool(at_once[line]))
    status = PodStatus.ALLOCATED if now else PodStatus.PIPELINED
    statement.place(state, run.positions[:1], np.array([line]), run.of.shape, status)
    return True


def _give_up(session: Session, tiers: Tiers, work: _Work, positions: Ints, run: _Run) -> bool:
    """No node takes the first of `positions`: note why, and decide whether the rest of the group is worth trying."""
    state = work.state
    free: Floats = session.free_later()
    error = explain(session, tiers, run.of, free)
    named_role = bool(state.group.roles[run.role])
    if work.subgroup is None:
        # What is ready already loses nothing by going on, where nobody demands its minimum.
        stop = not _goes_on(state, run.role) and not tiers.group_ready(state)
    else:
        stop = not _subgroup_goes_on(state, work.subgroup)
    # Without a role each pod is tried, and each fails alike; with one the first failure speaks for all of them.
    told = positions[:1] if named_role or stop else positions
    state.errors.update((position, error) for position in told.tolist())
    if named_role and not stop:
        _pass_over(state, positions[1:], run.role)
    if run.role not in state.failed_roles:
        state.failed_roles += (run.role,)
    work.runs.pop(0)
    if stop:
        work.runs.clear()
    return stop


def _pass_over(state: GroupState, positions: Ints, role: int) -> None:
    """Another pod of this role has found no node; these would not either."""
    for position in positions.tolist():
        # parity: upstream's words, which name the pod itself.
        name = state.group.pods[position].name
        said = f"Task {name} with role spec {state.group.roles[role]} has already predicated failed, skip"
        state.errors.setdefault(position, FitError(0, (), said_of=said))


def _goes_on(state: GroupState, failed_role: int) -> bool:
    """Whether a group may still become what it wants after a pod of `failed_role` found no node."""
    row, group = state.group.row, state.group
    if row.min_member >= len(group.pods):
        return False
    minima = dict(row.min_of_role)
    if row.min_member < sum(minima.values()):
        failed = {*state.failed_roles, failed_role}
        pending = np.flatnonzero(are(state.status, PodStatus.PENDING))
        hopeful = sum(1 for role in group.role[pending].tolist() if role not in failed)
        return state.ready_pods + hopeful >= row.min_member
    for role in {*state.failed_roles, failed_role}:
        minimum = minima.get(group.roles[role], 0)
        counts = state.counts_of_role(role)
        held = sum(counts[status] for status in READY_STATUSES) + state.pending_best_effort_of_role(role)
        if minimum and held < minimum:
            return False
    return True


def _subgroup_goes_on(state: GroupState, subgroup: int) -> bool:
    """Whether a subgroup may still become whole after one of its pods found no node."""
    subgroups = subgroups_of(state.group)
    pods = int(np.count_nonzero(subgroups.of == subgroup))
    return state.group.row.min_member < len(state.group.pods) and subgroups.each[subgroup].size < pods


def _advance(work: _Work, placed: int) -> None:
    run = work.runs[0]
    if placed == len(run.positions):
        work.runs.pop(0)
    else:
        run.positions = run.positions[placed:]


def _say_held_back(heap: list[tuple[tuple[object, ...], int, _Work]], tiers: Tiers) -> None:
    """The queue is over its share: its groups wait, and know for whom."""
    for _, _, work in heap:
        run = work.next_run
        try:
            _, objection = tiers.queue_room(work.state, run.of.shape, 1)
        except Exception as error:
            objection = tiers.unfit_after(error)
        work.state.held_back = work.state.held_back or objection
