"""The best node without a look at every node.

Lines are taken in blocks, and of each block a bound is known: no line in it scores higher. The block with the highest
bound (the first among equals) is looked at line by line. If its best line reaches the bound, nothing elsewhere can be
better, nor as good on a lower line; else the bound sinks to what was found and the next block has its turn. The answer
is that of the whole scan. Where nodes differ so much that bounds say little, patience ends and the caller scans.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints

SIZE = 512
# With fewer lines than this one scan costs no more than bounds do.
WORTHWHILE = 16 * SIZE
_PATIENCE = 4

# Which of these lines may be chosen; None for all of them.
OpenLines = Callable[[slice], "Flags | None"]


class Bounded:
    """A score that knows bounds."""

    def __call__(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        """A `PairScore` that is asked about blocks as well."""
        raise NotImplementedError

    def bounds(self) -> Floats | None:
        """For each block what none of its lines exceeds, in an array of its own; None where that is not known."""
        raise NotImplementedError

    def tighten(self, block: int) -> None:
        """The bound of the block was too high: look at its lines again."""
        raise NotImplementedError

    def bounds_failed(self) -> None:
        """Bounds have spared nothing: leave them alone for a while."""
        raise NotImplementedError


def best_line(score: Bounded, open_lines: OpenLines) -> int | None:
    """The open line with the highest score, the lowest among equals; None where only a scan can tell."""
    bounds = score.bounds()
    if bounds is None:
        return None
    found: dict[int, int] = {}
    for _ in range(_PATIENCE):
        block = int(bounds.argmax())
        if block in found:
            return found[block]
        lines = slice(block * SIZE, (block + 1) * SIZE)
        values, open_ = score(lines, 0), open_lines(lines)
        if open_ is not None:
            values = np.where(open_, values, -np.inf)
        best = int(values.argmax())
        if values[best] >= bounds[block]:
            return lines.start + best
        bounds[block] = values[best]
        found[block] = lines.start + best
        score.tighten(block)
    score.bounds_failed()
    return None


class Ranges:
    """Of each block the lowest and the highest value in every row. They widen at once and narrow when asked to."""

    def __init__(self, table: Floats) -> None:
        starts = np.arange(0, table.shape[1], SIZE)
        self._table = table
        self.lowest = np.minimum.reduceat(table, starts, axis=1)
        self.highest = np.maximum.reduceat(table, starts, axis=1)

    def widen(self, line: int) -> None:
        """The line has changed."""
        block = line // SIZE
        for row, value in enumerate(self._table[:, line].tolist()):
            if value > self.highest.item(row, block):
                self.highest[row, block] = value
            elif value < self.lowest.item(row, block):
                self.lowest[row, block] = value

    def narrow(self, block: int) -> None:
        values = self._table[:, block * SIZE : (block + 1) * SIZE]
        np.minimum.reduce(values, axis=1, out=self.lowest[:, block])
        np.maximum.reduce(values, axis=1, out=self.highest[:, block])
