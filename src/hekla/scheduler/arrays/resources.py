"""Resources as columns: a table of amounts has one column for each resource name known to the cycle.

Amounts are whole numbers held as float64 (exact below 2**53): CPU in thousandths, memory in bytes, `pods` in units,
any other resource in thousandths. Adding and taking away again therefore restores a table to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

# Differences below a tenth of the stored unit do not count where shares of a queue are compared.
TOLERANCE = 0.1


class Columns:
    """The order of resources in every table of one cycle: cpu, memory, then the rest by name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        rest = sorted({PODS, *names} - {CPU, MEMORY})
        self.names: tuple[str, ...] = (CPU, MEMORY, *rest)
        self.index = {name: position for position, name in enumerate(self.names)}
        self.pods = self.index[PODS]
        # `pods` is a dimension of nodes but not of queues' limits.
        self.counted: Flags = np.array([name != PODS for name in self.names])

    def __len__(self) -> int:
        return len(self.names)

    def covers(self, names: Iterable[str]) -> bool:
        return all(name in self.index for name in names)

    def row(self, amounts: Mapping[str, float], missing: float = 0.0) -> Floats:
        """One line of a table; resources that `amounts` leaves out get `missing`."""
        row = np.full(len(self.names), missing)
        for name, amount in amounts.items():
            row[self.index[name]] = amount
        return row

    def amounts(self, row: Floats) -> dict[str, float]:
        """Back from a row to amounts by name, zeros left out."""
        return {name: float(value) for name, value in zip(self.names, row) if value}


def new_table(lines: int, columns: int) -> Floats:
    """A table of zeros in which each column lies together in memory: work goes column by column."""
    return np.zeros((lines, columns), order="F")


def within(wanted: Floats, limit: Floats) -> bool:
    """Whether `wanted` is at most `limit` in every column, differences below the tolerance aside."""
    return bool(np.all(wanted - limit < TOLERANCE))


def exceeded(total: Floats, limit: Floats, asked: Floats, counted: Flags) -> Flags:
    """The columns that `asked` names in which `total` is above `limit`: exact, no tolerance."""
    return (asked > 0) & counted & (total > limit)
