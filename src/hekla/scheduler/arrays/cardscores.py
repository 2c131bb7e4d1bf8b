"""How well a pod's cards would be packed, or spread: nodes are lines, cards columns, of what each card has free.

Where a node has no such card what is said of it is of no use to anybody.
"""

from __future__ import annotations

import numpy as np

from hekla.scheduler.arrays.resources import Floats

_WHOLE = 100.0


def packed(room: Floats, size: Floats, whole: int, share: float) -> Floats:
    """100 for each card that would be full with the pod on it, and in proportion."""
    if whole:
        return np.full(len(room), _WHOLE * whole)
    left = _first_fitting(room, share) - share
    return np.round(_WHOLE * (size - left) / np.where(size > 0, size, np.inf))


def spread(room: Floats, size: Floats, whole: int, share: float) -> Floats:
    """100 for each card that nobody else is on."""
    if whole:
        return np.full(len(room), _WHOLE * whole)
    return np.where(_first_fitting(room, share) == size, _WHOLE, 0.0)


def _first_fitting(room: Floats, share: float) -> Floats:
    """What the first card with room for the share has free."""
    if not room.shape[1]:
        return np.zeros(len(room))
    cards = (room >= share).argmax(axis=1)
    found: Floats = np.take_along_axis(room, cards[:, None], axis=1)[:, 0]
    return found
