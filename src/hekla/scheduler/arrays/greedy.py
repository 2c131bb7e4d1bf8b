"""k identical pods placed in one step, with the very result of placing them one by one.

One by one, each pod goes to the node whose score for one more pod is highest (the lowest line among equals). Let
S[n, j] be the score of node n for its (j+1)-th pod of the batch. The one-by-one rule is a merge of the lines of S
that always takes the best head, so (n, j) is taken when the level has sunk to the lowest score met on the way, m[n,
j] = min(S[n, :j+1]), and inside one level the lowest line is emptied first. Sorting by (-m, n, j) is therefore the
one-by-one order, and the first k entries are the answer. Only as much of S is computed as can matter: a line is
followed further only while all of it that is known belongs to the best k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from hekla.scheduler.arrays.resources import Floats, Ints

# score(lines, placed): for each line the score of one more pod there, after `placed` of this batch.
Score = Callable[[Ints, Ints], Floats]

_FIRST_DEPTH = 4


class Following(Protocol):
    """Points of lines that change with every pod, in an order of lines that stays."""

    points: Floats

    def add(self, at: int) -> None:
        """One more pod is on the line at that position."""


def place_identical(count: int, room: Ints, score: Score) -> Ints:
    """Lines for up to `count` pods, in the order the pods are placed; shorter when there is less room."""
    lines = np.flatnonzero(room > 0)
    count = min(count, int(room[lines].sum()))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    if count < len(lines):
        lines = _best_heads(count, lines, score)
    known_lines, known_depths, known_levels = _explore(count, lines, room[lines], score)
    order = np.lexsort((known_depths, known_lines, -known_levels))[:count]
    return known_lines[order]


def place_one_by_one(count: int, room: Ints, score: Score) -> Ints:
    """The rule itself, as plainly as it can be written; what `place_identical` must equal."""
    lines = np.flatnonzero(room > 0)
    placed = np.zeros(len(lines), dtype=np.int64)
    chosen: list[int] = []
    while len(chosen) < count and np.any(placed < room[lines]):
        values = np.where(placed < room[lines], score(lines, placed), -np.inf)
        best = int(values.argmax())
        placed[best] += 1
        chosen.append(int(lines[best]))
    return np.array(chosen, dtype=np.int64)


def place_following(count: int, room: Ints, score: Score, following: Following) -> Ints:
    """One by one, with points beside the score; `following` is about the lines that have room, all of them.

    Ends when a line is full: what is left may be liked differently without it.
    """
    lines = np.flatnonzero(room > 0)
    left, placed = room[lines], np.zeros(len(lines), dtype=np.int64)
    levels = [score(lines, placed)]  # by how many pods a line has got
    values = levels[0].copy()
    chosen: list[int] = []
    while len(chosen) < count:
        best = int((values + following.points).argmax())
        chosen.append(best)
        placed[best] += 1
        if placed[best] == left[best]:
            break
        depth = int(placed[best])
        if depth == len(levels):
            levels.append(score(lines, np.full(len(lines), depth)))
        values[best] = levels[depth][best]
        following.add(best)
    found: Ints = lines[chosen]
    return found


def _best_heads(count: int, lines: Ints, score: Score) -> Ints:
    """The only lines that `count` pods can reach: those with the best first scores, the lowest among equals."""
    heads = score(lines, np.zeros(len(lines), dtype=np.int64))
    threshold = np.partition(heads, len(heads) - count)[len(heads) - count]
    better = heads > threshold
    equal = np.flatnonzero(heads == threshold)[: count - int(np.count_nonzero(better))]
    better[equal] = True
    found: Ints = lines[better]
    return found


def _explore(count: int, lines: Ints, room: Ints, score: Score) -> tuple[Ints, Ints, Floats]:
    """Enough of (line, depth, level) to contain the best `count` entries."""
    parts: list[tuple[Ints, Ints, Floats]] = []
    active, start = np.arange(len(lines)), 0
    lowest = np.full(len(lines), np.inf)
    depth = max(_FIRST_DEPTH, -(-2 * count // len(lines)))
    while len(active):
        flat_index, flat_depth, flat_level = _follow(active, start, depth, lines, room, lowest, score)
        parts.append((lines[flat_index], flat_depth, flat_level))
        start += depth
        depth *= 2
        active = active[room[active] > start]
        if len(active):
            levels = np.concatenate([level for _, _, level in parts])
            threshold = (
                np.partition(levels, len(levels) - count)[len(levels) - count] if len(levels) >= count else -np.inf
            )
            active = active[lowest[active] >= threshold]
    return (
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _follow(
    active: Ints, start: int, depth: int, lines: Ints, room: Ints, lowest: Floats, score: Score
) -> tuple[Ints, Ints, Floats]:
    """Levels of the active lines for `depth` more depths (within their room); `lowest` is brought up to date."""
    depth = min(depth, int(room[active].max()) - start)
    steps = np.arange(start, start + depth)
    index = np.repeat(active, depth)
    depths = np.tile(steps, len(active))
    inside = depths < room[index]
    values = np.full(len(index), np.inf)
    values[inside] = score(lines[index[inside]], depths[inside])
    table = values.reshape(len(active), depth)
    table[:, 0] = np.minimum(table[:, 0], lowest[active])
    np.minimum.accumulate(table, axis=1, out=table)
    lowest[active] = table[:, -1]
    return index[inside], depths[inside], table.reshape(-1)[inside]
