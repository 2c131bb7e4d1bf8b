"""What fits where: for one class of pods against all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints

# What a pod asks for: (column, amount), amounts above zero only.
Asked = Sequence[tuple[int, float]]


def fits(free: Floats, asked: Asked) -> Flags:
    """Nodes (lines of `free`) with room for one more pod."""
    ok: Flags | None = None
    for column, amount in asked:
        enough = free[:, column] >= amount
        ok = enough if ok is None else np.logical_and(ok, enough, out=ok)
    return np.ones(len(free), dtype=bool) if ok is None else ok


def room(free: Floats, asked: Asked, most: int) -> Ints:
    """How many such pods each node can take, at most `most`."""
    count = np.full(len(free), float(most))
    for column, amount in asked:
        np.minimum(count, np.floor_divide(free[:, column], amount), out=count)
    np.maximum(count, 0.0, out=count)
    return count.astype(np.int64)


def covers(free: Floats, request: Floats) -> Flags:
    """For each line of `free`, or for the only one, whether a pod of `request` fits in it."""
    enough: Flags = np.all(_enough(free, request), axis=-1)
    return enough


def first_missing(free: Floats, request: Floats) -> Ints:
    """For each node the first column, in table order, in which a pod of `request` does not fit; -1 where it does."""
    lacking = ~_enough(free, request)
    return np.where(lacking.any(axis=1), lacking.argmax(axis=1), -1).astype(np.int64)


def _enough(free: Floats, request: Floats) -> Flags:
    """A node with less than nothing of CPU or memory (the first two) lacks it for every pod, of others for who asks."""
    enough: Flags = free >= request
    enough[..., 2:] |= request[2:] <= 0
    return enough
