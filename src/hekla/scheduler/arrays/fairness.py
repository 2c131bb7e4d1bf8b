"""Sharing a cluster between queues."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hekla.scheduler.arrays.resources import TOLERANCE, Flags, Floats

_MOST_ROUNDS = 10_000
# Rounds that move less than this come to nothing: so little that what they leave is below the tolerance in all.
_STANDSTILL = TOLERANCE / 100


def share(used: Sequence[float], entitled: Sequence[float]) -> float:
    """The largest used fraction of what one is entitled to; what one is not entitled to at all does not count."""
    return max((amount / limit for amount, limit in zip(used, entitled) if limit >= TOLERANCE), default=0.0)


def water_fill(
    total: Floats, weight: Floats, request: Floats, ceiling: Floats, floor: Floats, counted: Flags
) -> Floats:
    """What each queue (a line) deserves of `total`, by weight.

    Round by round the remainder is handed out by weight to the queues not yet satisfied, never above a queue's
    `request` or `ceiling` (infinite where unlimited) and never below its `floor`; what one cannot use goes round again.
    When nothing of what is `counted` is left it ends, whatever else there may be.
    """
    deserved = np.zeros_like(request)
    open_ = np.ones(len(weight), dtype=bool)
    remaining = total.copy()
    for _ in range(_MOST_ROUNDS):
        weights = float(weight[open_].sum())
        if weights <= 0:
            break
        before = deserved[open_]
        after = before + remaining * (weight[open_] / weights)[:, None]
        after = np.maximum(np.minimum(np.minimum(after, ceiling[open_]), request[open_]), floor[open_])
        deserved[open_] = after
        satisfied = np.all(request[open_] - after < TOLERANCE, axis=1)
        unchanged = np.all(np.abs(after - before) < _STANDSTILL, axis=1)
        open_[np.flatnonzero(open_)[satisfied | unchanged]] = False
        left = np.maximum(remaining - (after - before).sum(axis=0), 0.0)
        stuck = bool(np.all(np.abs(left - remaining) < _STANDSTILL))
        remaining = left
        if stuck or bool(np.all(remaining[counted] < TOLERANCE)):
            break
    return _without_dust(deserved)


def _without_dust(amounts: Floats) -> Floats:
    """Thirds and their sums miss a whole number by a trifle, and pods that ask for it would be refused for that."""
    whole = np.rint(amounts)
    return np.where(np.abs(amounts - whole) < TOLERANCE, whole, amounts)
