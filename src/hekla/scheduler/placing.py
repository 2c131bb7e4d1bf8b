"""Nodes for pods of one class: the step every action shares."""

from __future__ import annotations

from functools import partial

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.fits import Asked, first_missing, fits, room
from hekla.scheduler.arrays.greedy import place_identical
from hekla.scheduler.arrays.resources import PODS, Flags, Floats, Ints
from hekla.scheduler.fit import Clause, FitError
from hekla.scheduler.session import PodClass, Session
from hekla.scheduler.tiers import Tiers
from hekla.scheduler.timings import SCORING

_NONE: Ints = np.empty(0, dtype=np.int64)
_NO_SLOT = "node(s) pod number exceeded"


def nodes_for(session: Session, tiers: Tiers, of: PodClass, free: Floats, count: int) -> Ints:
    """Nodes for up to `count` pods, in the order they are to be placed.

    Fewer than could be placed may come back where the score depends on which nodes still have room: call again after
    placing, until nothing comes back.
    """
    mask = tiers.node_mask(of)
    timings = session.timings
    started = timings.now()
    try:
        return _best_nodes(session, tiers, of, free, count, mask)
    finally:
        timings.stages[SCORING] += timings.now() - started


def _best_nodes(session: Session, tiers: Tiers, of: PodClass, free: Floats, count: int, mask: Flags | None) -> Ints:
    if count == 1 or tiers.one_by_one(of):
        return _node_for_one(session, tiers, of, free, mask)
    places = room(free, session.asked(of.shape), tiers.most_per_node(of, count))
    if mask is not None:
        places *= mask
    candidates = np.flatnonzero(places)
    if not len(candidates):
        return _NONE
    score = tiers.class_score(of, candidates)
    if score.relative:
        count = min(count, int(places[candidates].min()))
    return place_identical(count, places, score)


def explain(session: Session, tiers: Tiers, of: PodClass, free: Floats) -> FitError:
    """Why no node takes a pod of the class, each node counted once."""
    kind = session.snapshot.shapes[of.shape]
    open_ = np.ones(len(session.snapshot.nodes), dtype=bool)
    clauses: list[Clause] = []
    missing = first_missing(free, session.request(of.shape))
    for column, name in enumerate(session.snapshot.columns.names):
        text = _NO_SLOT if name == PODS and kind.best_effort else f"Insufficient {name}"
        clauses += _clause(text, Reason.NOT_ENOUGH_RESOURCES, missing == column, open_)
    for refusal in tiers.refusals(of):
        clauses += _clause(refusal.text, refusal.reason, refusal.nodes, open_)
    return FitError(len(open_), tuple(clauses))


def _node_for_one(session: Session, tiers: Tiers, of: PodClass, free: Floats, mask: Flags | None) -> Ints:
    open_lines = partial(_open_lines, free, session.contested(of.shape), mask)
    candidates: Ints | None = None
    if tiers.has_preferences(of):
        ok = open_lines(slice(None))
        candidates = np.arange(len(free)) if ok is None else np.flatnonzero(ok)
        if not len(candidates):
            return _NONE
    line = tiers.class_score(of, candidates).best(open_lines, len(free))
    return _NONE if line is None else np.array([line], dtype=np.int64)


def _open_lines(free: Floats, contested: Asked, mask: Flags | None, lines: slice) -> Flags | None:
    """Which of the lines have room and pass the filters; None for all of them."""
    ok = fits(free[lines], contested) if contested else None
    if mask is None:
        return ok
    return mask[lines] if ok is None else np.logical_and(ok, mask[lines], out=ok)


def _clause(text: str, reason: Reason, nodes: Flags, open_: Flags) -> list[Clause]:
    """A clause for the marked nodes nobody has spoken against yet; they are then spoken for."""
    counted = nodes & open_
    open_ &= ~counted
    count = int(np.count_nonzero(counted))
    return [Clause(text, count, reason)] if count else []
