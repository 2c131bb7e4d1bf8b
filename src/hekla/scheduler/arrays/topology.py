"""Parts of a cluster as columns: which nodes belong together by a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    of_node: Ints  # the number of each node's domain, -1 where the node has none
    count: int

    @property
    def has(self) -> Flags:
        return self.of_node >= 0

    def sums(self, values: Floats | Ints, among: Flags | None = None) -> Floats:
        """Of each domain the sum over its nodes (only those in `among`)."""
        inside = self.has if among is None else self.has & among
        return np.bincount(self.of_node[inside], weights=values[inside], minlength=self.count).astype(np.float64)

    def present(self, among: Flags) -> Flags:
        """Which domains have a node in `among`."""
        return np.bincount(self.of_node[self.has & among], minlength=self.count) > 0

    def spread_out(self, of_domain: Floats, missing: float = 0.0) -> Floats:
        """Of each node the value of its domain."""
        if not self.count:
            return np.full(len(self.of_node), missing)
        return np.where(self.has, of_domain[self.of_node], missing)


def domains_of(values: Sequence[str | None]) -> Domains:
    numbers: dict[str, int] = {}
    of_node = [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values]
    return Domains(np.array(of_node, dtype=np.int64), len(numbers))
