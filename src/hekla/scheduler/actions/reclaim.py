"""Room for queues below their share, at the cost of queues above theirs."""

from __future__ import annotations

from hekla.scheduler.actions.preempt import hungry_groups
from hekla.scheduler.displacing import Rules, alike, make_room, pods_to_try
from hekla.scheduler.residents import Resident, Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.statement import Statement
from hekla.scheduler.tiers import Tiers

REASON = "reclaim"


def execute(session: Session, tiers: Tiers) -> None:
    for name, states in hungry_groups(session, tiers).items():
        if tiers.queue_overused(session.queues[name]):
            continue
        rules = _rules(session, tiers, name)
        for state in states:
            _for_group(session, tiers, state, rules)


def _rules(session: Session, tiers: Tiers, queue: str) -> Rules:
    others = [state for state in session.groups if state.queue.name != queue and state.queue.reclaimable]
    return Rules(
        reason=REASON,
        residents=Residents(session, others, (PodStatus.RUNNING,)),
        concerns=_any,
        allowed=tiers.reclaimable,
        by_score=False,
        # parity: a node where nobody can be made to leave is not used, even if it has room.
        needs_candidates=True,
        # parity: nor is it asked again whether the filters agree with what leaves.
        room_suffices=True,
    )


def _for_group(session: Session, tiers: Tiers, state: GroupState, rules: Rules) -> None:
    """Everything the group lacks; kept only if it then has its minimum."""
    statement = Statement(session)
    try:
        _seek_room(session, tiers, statement, state, rules)
    except Exception as error:
        statement.discard()
        state.invalid = tiers.unfit_after(error)


def _seek_room(session: Session, tiers: Tiers, statement: Statement, state: GroupState, rules: Rules) -> None:
    pods = pods_to_try(session, tiers, state)
    hopeless: list[tuple[object, ...]] = []
    while pods and tiers.group_starving(state):
        contender = pods.pop(0)
        if alike(contender) in hopeless or not contender.pod.preempts:
            continue
        may = tiers.may_reclaim(state, contender.shape)
        if not may or not make_room(session, tiers, statement, contender, rules):
            hopeless.append(alike(contender))
    if tiers.group_pipelined(state):
        statement.commit()
    else:
        statement.discard()


def _any(resident: Resident) -> bool:
    return True
