"""Nodes for pods of one class: the step every action shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.fits import Asked, first_missing, fits, room
from hekla.scheduler.arrays.greedy import place_following, place_identical
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.fit import Clause, FitError, Refusal
from hekla.scheduler.session import PodClass, Session
from hekla.scheduler.tiers import Tiers
from hekla.scheduler.timings import SCORING

_NONE: Ints = np.empty(0, dtype=np.int64)
_NO_SLOT = "node(s) pod number exceeded"


def nodes_for(session: Session, tiers: Tiers, of: PodClass, count: int, *, at_once: bool) -> Ints:
    """Nodes for up to `count` pods, in the order they are to be placed; with room now, or once others have left.

    Fewer than could be placed may come back where the score depends on which nodes still have room: call again after
    placing, until nothing comes back.
    """
    free = session.free_now() if at_once else session.free_later()
    mask = tiers.node_mask_now(of) if at_once else tiers.node_mask(of)
    if session.may_be_overfull and not session.snapshot.shapes[of.shape].best_effort:
        # parity: such a node takes no pod that asks for anything, even where it asks for something else.
        sound: Flags = np.all(free[:, :2] >= 0, axis=1)
        mask = sound if mask is None else mask & sound
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
    if tiers.is_followed(of):
        following = tiers.following(of, candidates)
        if following is None:
            return _node_for_one(session, tiers, of, free, mask)
        return place_following(count, places, tiers.class_score(of, None), following)
    score = tiers.class_score(of, candidates)
    if score.relative:
        count = min(count, int(places[candidates].min()))
    return place_identical(count, places, score)


def explain(session: Session, tiers: Tiers, of: PodClass, free: Floats) -> FitError:
    """Why no node takes a pod of the class: the first resource a node lacks, or else all that speaks against it.

    What the pod itself lacks is told of all nodes, and nothing else is.
    """
    kind, request, columns = session.snapshot.shapes[of.shape], session.request(of.shape), session.snapshot.columns
    tally, by_filter = _Tally(len(free)), list(tiers.refusals_by_filter(of))
    if any(refusal.of_pod for refusals in by_filter for refusal in refusals):
        by_filter = [[refusal for refusal in refusals if refusal.of_pod] for refusals in by_filter]
        return _counted(tally, by_filter)
    if not kind.best_effort:
        later = free.copy()
        later[:, columns.pods] += session.held_slots
        missing = first_missing(later, request)
        for column, name in enumerate(columns.names):
            tally.count(f"Insufficient {name}", Reason.NOT_ENOUGH_RESOURCES, missing == column)
        tally.close()
    tally.count(_NO_SLOT, Reason.NOT_ENOUGH_RESOURCES, free[:, columns.pods] < request[columns.pods])
    return _counted(tally, by_filter)


def _counted(tally: _Tally, by_filter: Iterable[Sequence[Refusal]]) -> FitError:
    for refusals in by_filter:
        for refusal in refusals:
            tally.count(refusal.text, refusal.reason, refusal.nodes, final=refusal.final, words=refusal.words)
        tally.close()
    return tally.error()


class _Tally:
    """Counts nodes under what speaks against them, until something does that ends the matter."""

    def __init__(self, nodes: int) -> None:
        self._open: Flags = np.ones(nodes, dtype=bool)
        self._refused: Flags = np.zeros(nodes, dtype=bool)
        self._unsuited: Flags = np.zeros(nodes, dtype=bool)  # refused for something else than room
        self._clauses: list[Clause] = []

    def count(self, text: str, reason: Reason, nodes: Flags, *, final: bool = False, words: str = "") -> None:
        counted = nodes & self._open
        number = int(np.count_nonzero(counted))
        if not number:
            return
        self._clauses.append(Clause(text, number, reason, words))
        self._refused |= counted
        if reason is not Reason.NOT_ENOUGH_RESOURCES:
            self._unsuited |= counted
        if final:
            self._open &= ~counted

    def close(self) -> None:
        """Nodes refused so far are not counted any more."""
        self._open &= ~self._refused

    def error(self) -> FitError:
        lacks_room = bool(np.any(self._refused & ~self._unsuited))
        return FitError(len(self._open), tuple(self._clauses), lacks_room)


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
