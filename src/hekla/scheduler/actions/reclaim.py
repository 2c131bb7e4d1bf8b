"""Room for queues below their share, at the cost of queues above theirs."""

from __future__ import annotations

from functools import partial

from hekla.scheduler.actions.preempt import hungry_groups
from hekla.scheduler.displacing import Rules, make_room_for_group
from hekla.scheduler.residents import Contender, Resident, Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import Session
from hekla.scheduler.tiers import Tiers

REASON = "reclaim"


def execute(session: Session, tiers: Tiers) -> None:
    for name, states in hungry_groups(session, tiers).items():
        if tiers.queue_overused(session.queues[name]):
            continue
        rules_for = partial(_rules_for, tiers, _rules(session, tiers, name))
        for state in states:
            make_room_for_group(session, tiers, state, _may_try, rules_for)


def _may_try(contender: Contender) -> bool:
    return contender.pod.preempts


def _rules_for(tiers: Tiers, rules: Rules, contender: Contender) -> Rules | None:
    return rules if tiers.may_reclaim(contender.state, contender.shape) else None


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


def _any(resident: Resident) -> bool:
    return True
