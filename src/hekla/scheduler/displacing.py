"""Room made by eviction: on which node a pending pod could go, and which pods would have to leave it for that.

Preempting and reclaiming share this and differ in `Rules`. Nothing is evicted where the room is there anyway, and a
node on which too little may leave is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.fits import covers
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.queuegates import queue_room
from hekla.scheduler.residents import Contender, Resident, Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.snapshot import are
from hekla.scheduler.statement import Statement
from hekla.scheduler.subgroups import subgroups_in_order, subgroups_of
from hekla.scheduler.tiers import Tiers

_Lot = tuple[int | None, list[Contender]]  # pods for which room is found together; of a subgroup, or of none


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    reason: str
    residents: Residents
    concerns: Callable[[Resident], bool]  # whether a resident may be considered at all
    allowed: Callable[[Contender, Sequence[Resident]], list[Resident]]  # what the plugins leave of the candidates
    by_score: bool  # the best node first, else in the order of nodes
    needs_candidates: bool  # a node where nobody could leave is passed over
    room_suffices: bool  # else the queue's limit and the filters have to agree as well
    counted: bool = False  # attempts appear in the figures


def make_room_for_group(
    session: Session,
    tiers: Tiers,
    state: GroupState,
    may_try: Callable[[Contender], bool],
    rules_for: Callable[[Contender], Rules | None],
) -> None:
    """Everything a group lacks, pod by pod; kept only if it then has its minimum. Without rules a pod gets nothing.

    A group in subgroups gets room for whole ones: nobody has to leave for a part of one.
    """
    statement = Statement(session)
    try:
        for subgroup, contenders in _lots(session, tiers, state):
            if not tiers.group_starving(state):
                break
            trial = Statement(session)
            try:
                _seek(session, tiers, trial, (subgroup, contenders), may_try, rules_for)
            except Exception:
                trial.discard()
                raise
            if subgroup is None or tiers.subgroup_pipelined(state, subgroup):
                statement.merge(trial)
            else:
                trial.discard()
        if tiers.group_pipelined(state):
            statement.commit()
        else:
            statement.discard()
    except Exception as error:
        statement.discard()
        state.invalid = tiers.unfit_after(error)


def _lots(session: Session, tiers: Tiers, state: GroupState) -> list[_Lot]:
    """A group's pods that may be tried: all together, or subgroup by subgroup."""
    contenders = pods_to_try(session, tiers, state)
    if not state.group.row.subgroup_policies:
        return [(None, contenders)]
    of, lots = subgroups_of(state.group).of, dict[int, list[Contender]]()
    for contender in contenders:
        lots.setdefault(int(of[contender.position]), []).append(contender)
    return [(subgroup, lots[subgroup]) for subgroup in subgroups_in_order(tiers, state, lots)]


def _seek(
    session: Session,
    tiers: Tiers,
    trial: Statement,
    lot: _Lot,
    may_try: Callable[[Contender], bool],
    rules_for: Callable[[Contender], Rules | None],
) -> None:
    """Room for pods of a lot, one by one, until it and its group have enough."""
    subgroup, contenders = lot
    hopeless: set[tuple[object, ...]] = set()
    for contender in contenders:
        state = contender.state
        whole = subgroup is None or tiers.subgroup_pipelined(state, subgroup)
        if whole and not tiers.group_starving(state):
            return
        if _alike(contender) in hopeless or not may_try(contender):
            continue
        rules = rules_for(contender)
        if rules is None or not make_room(session, tiers, trial, contender, rules):
            hopeless.add(_alike(contender))
        else:
            # What left for this one may have left room beside it.
            hopeless.clear()


def make_room(session: Session, tiers: Tiers, statement: Statement, contender: Contender, rules: Rules) -> bool:
    """Promise the contender a node, with evictions where needed; False, with nothing changed, where there is none."""
    for line in _nodes_to_try(session, tiers, contender, rules):
        trial = Statement(session)
        try:
            found = _clear(session, tiers, trial, contender, line, rules)
        except Exception:
            trial.discard()
            raise
        if found:
            statement.merge(trial)
            return True
        trial.discard()
    return False


def pods_to_try(session: Session, tiers: Tiers, state: GroupState) -> list[Contender]:
    """A group's pending pods that nothing holds back, in their order."""
    group = state.group
    wanted = np.flatnonzero(are(state.status, PodStatus.PENDING) & ~group.gated)
    ordered: Iterable[int] = tiers.pods_in_order(group, wanted).tolist()
    return [Contender(state, position, session.class_of(state, position)) for position in ordered]


def _alike(contender: Contender) -> tuple[object, ...]:
    """Pods of one group for which this is equal find room, or none, alike."""
    return (contender.of, contender.pod.priority)


def _nodes_to_try(session: Session, tiers: Tiers, contender: Contender, rules: Rules) -> list[int]:
    request = session.request(contender.shape)
    could: Flags = covers(rules.residents.most_free(session), request) & ~tiers.ruled_out(contender.of)
    lines: Ints = np.flatnonzero(could)
    if not rules.by_score or len(lines) < 2:
        return lines.tolist()  # type: ignore[no-any-return]
    score: Floats = tiers.class_score(contender.of, lines)(lines, np.zeros(len(lines), dtype=np.int64))
    return lines[np.argsort(-score, kind="stable")].tolist()  # type: ignore[no-any-return]


def _clear(session: Session, tiers: Tiers, trial: Statement, contender: Contender, line: int, rules: Rules) -> bool:
    """Evict one after the other, the least important first, until the contender fits."""
    here = [resident for resident in rules.residents.on(line) if rules.concerns(resident)]
    if rules.needs_candidates and not here:
        return False
    victims = rules.allowed(contender, tiers.victims_in_order(here, contender))
    freed = sum((session.request(victim.shape) for victim in victims), _room(session, line, rules))
    if not covers(freed, session.request(contender.shape)):
        return False
    if rules.counted:
        session.tallies.attempts += 1
        session.tallies.victims = len(victims)
    evicted: list[Resident] = []
    while not _fits(session, tiers, contender, line, rules):
        if len(evicted) == len(victims):
            return False
        evicted.append(victims[len(evicted)])
        trial.evict(evicted[-1], rules.reason, contender.state)
    if session.cards is not None and session.cards.request(contender.shape) is not None:
        evicted = _without_spare(session, tiers, trial, contender, line, rules, evicted)
    # parity: a pod that asked for nothing gives nothing up, not even when its slot is what was needed.
    cleared = any(not session.snapshot.shapes[victim.shape].best_effort for victim in evicted)
    trial.promise(contender.state, contender.position, line, contender.shape, cleared=cleared)
    return True


def _without_spare(
    session: Session,
    tiers: Tiers,
    trial: Statement,
    contender: Contender,
    line: int,
    rules: Rules,
    evicted: Sequence[Resident],
) -> list[Resident]:
    """Let those stay who are on other cards than the contender gets; the most important of them first."""
    needed = list(evicted)
    for victim in reversed(evicted[:-1]):
        others = [other for other in needed if other is not victim]
        _evict_only(trial, others, rules, contender)
        needed = others if _fits(session, tiers, contender, line, rules) else needed
    _evict_only(trial, needed, rules, contender)
    return needed


def _evict_only(trial: Statement, residents: Sequence[Resident], rules: Rules, contender: Contender) -> None:
    trial.discard()
    for resident in residents:
        trial.evict(resident, rules.reason, contender.state)


def _fits(session: Session, tiers: Tiers, contender: Contender, line: int, rules: Rules) -> bool:
    if not covers(_room(session, line, rules), session.request(contender.shape)):
        return False
    if rules.room_suffices:
        return _has_cards(session, contender, line)
    if not queue_room(session, tiers, contender.state, contender.shape, 1, contender.pod.queue_gate)[0]:
        return False
    follows_pods = session.constraints(contender.of).follows_pods or session.is_fickle(contender.of)
    if tiers.filters_settled and not follows_pods:
        return True
    return not any(refusal.nodes[line] for refusal in tiers.refusals(contender.of))


def _has_cards(session: Session, contender: Contender, line: int) -> bool:
    """Cards are room as well: what is free of them in sum may be nobody's use."""
    request = None if session.cards is None else session.cards.request(contender.shape)
    return session.cards is None or request is None or bool(session.cards.fits(request, at_once=False)[line])


def _room(session: Session, line: int, rules: Rules) -> Floats:
    """What will be free on a node. A slot that is still held is a matter of filters."""
    free = session.free_later_on(line)
    if rules.room_suffices:
        free[session.snapshot.columns.pods] += session.held_slots[line]
    return free
