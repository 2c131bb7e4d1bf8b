"""Pods that ask for nothing fill in wherever a node has a pod slot. Queues' limits do not apply to them."""

from __future__ import annotations

import numpy as np

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.resources import Ints
from hekla.scheduler.fit import FitError
from hekla.scheduler.placing import explain, nodes_for
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import GroupState, PodClass, Session
from hekla.scheduler.snapshot import are
from hekla.scheduler.tiers import Tiers

_NOBODY: Ints = np.empty(0, dtype=np.int64)


def execute(session: Session, tiers: Tiers) -> None:
    candidates = [state for state in session.active if _is_candidate(state, tiers)]
    for state in candidates:
        _take_back_promises(session, state)
    order = sorted(candidates, key=lambda state: (tiers.queue_key(state.queue), tiers.group_key(state)))
    for state in order:
        try:
            _fill(session, tiers, state)
            if tiers.group_ready(state):
                _bind_allocated(state)
        except Exception as error:
            # Pods allocated here are bound with the whole group or not at all.
            state.invalid = tiers.unfit_after(error)


def _is_candidate(state: GroupState, tiers: Tiers) -> bool:
    if state.phase is PodGroupPhase.PENDING or not (state.pending_best_effort or len(_promised(state))):
        return False
    try:
        state.invalid = tiers.group_valid(state)
    except Exception as error:
        state.invalid = tiers.unfit_after(error)
    return state.invalid is None


def _promised(state: GroupState) -> Ints:
    """Pods that ask for nothing and were promised a slot."""
    if not state.waiting_pods or not state.group.has_best_effort:
        return _NOBODY
    return np.flatnonzero(state.group.best_effort & are(state.status, PodStatus.PIPELINED))


def _take_back_promises(session: Session, state: GroupState) -> None:
    """They may have a slot now, elsewhere perhaps; if not they wait like the others of their kind."""
    for position in _promised(state).tolist():
        assert state.node is not None
        at, line = np.array([position]), state.node[[position]]
        session.take_back(state, at, line, int(state.group.shape[position]), PodStatus.PIPELINED)
        # Nobody leaves for it any more.
        state.cleared.discard(position)


def _fill(session: Session, tiers: Tiers, state: GroupState) -> None:
    group = state.group
    wanted = np.flatnonzero(are(state.status, PodStatus.PENDING) & group.best_effort & ~group.gated)
    errors: dict[PodClass, FitError] = {}
    for position in tiers.pods_in_order(group, wanted).tolist():
        of = session.class_of(state, position)
        if of not in errors:
            nodes = nodes_for(session, tiers, of, 1, at_once=True)
            if len(nodes):
                session.place(state, np.array([position]), nodes, of.shape, PodStatus.ALLOCATED)
                continue
            errors[of] = explain(session, tiers, of, session.free_now())
        state.errors[position] = errors[of]


def _bind_allocated(state: GroupState) -> None:
    positions = np.flatnonzero(are(state.status, PodStatus.ALLOCATED))
    if len(positions):
        assert state.node is not None
        state.mark(positions, PodStatus.ALLOCATED, PodStatus.BINDING, state.node[positions])
