"""Scores of nodes for one more pod of a class, all nodes at once, at any depth of a batch.

Each score takes `lines` (None for all nodes) and `placed`, how many pods of the class the batch has put there already.
Whole-number scores are rounded down as kube-scheduler does; a billionth is added first, so that a division that should
come out whole but lies a bit below does so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.resources import Floats, Ints

_EPSILON = 1e-9
_MEBIBYTE = 1024 * 1024
# What is smaller is there in no time; what is larger takes so long that it makes no difference any more.
_SMALL = 23 * _MEBIBYTE
_LARGE = 1000 * _MEBIBYTE


def normalise(raw: Floats, weight: float, *, reverse: bool) -> Floats:
    """To 0 … 100 relative to the highest (reversed, the highest gets 0), times the weight."""
    highest = float(raw.max(initial=0.0))
    scaled = np.floor(raw * 100 / highest + _EPSILON) if highest > 0 else np.zeros_like(raw)
    result: Floats = (100 - scaled if reverse else scaled) * weight
    return result


def presence(sizes: Ints, containers: int) -> Ints:
    """0 … 100, from how many bytes of the images of so many containers nodes have already."""
    most = _LARGE * containers
    points: Ints = (np.clip(sizes, _SMALL, most) - _SMALL) * 100 // (most - _SMALL)
    return points


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """A score that stays as it is, wherever pods are put."""

    points: Floats

    def __call__(self, lines: Ints | None, placed: Ints | int) -> Floats:
        return self.points if lines is None else self.points[lines]


@dataclass(frozen=True, slots=True, eq=False)
class Fullness:
    """0 … 100 times the weight: how full a node would be in what a pod asks for, 0 where it would overflow."""

    allocatable: Floats
    used: Floats
    asked: Sequence[tuple[int, float, float]]  # column, amount, weight
    weight: float

    def __call__(self, lines: Ints | None, placed: Ints | int) -> Floats:
        total: Floats | float = 0.0
        overflow = np.zeros(len(self.used) if lines is None else len(lines), dtype=bool)
        for column, amount, weight in self.asked:
            capacity = _at(self.allocatable, column, lines)
            after = _at(self.used, column, lines) + amount * (placed + 1)
            total = total + after / np.where(capacity > 0, capacity, np.inf) * weight
            overflow |= after > capacity
        weights = sum(weight for _, _, weight in self.asked)
        return np.where(overflow, 0.0, total / weights * 100 * self.weight if weights else 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Allotment:
    """0 … 100 times the weight: nodes that would be full in some of what a pod asks for and roomy in the rest.

    0 where it would overflow.
    """

    allocatable: Floats
    used: Floats
    asked: Sequence[tuple[int, float, float, bool]]  # column, amount, weight, whether full is better
    weight: float

    def __call__(self, lines: Ints | None, placed: Ints | int) -> Floats:
        total = np.zeros(len(self.used) if lines is None else len(lines))
        overflow = np.zeros(len(total), dtype=bool)
        for column, amount, weight, fill in self.asked:
            capacity = _at(self.allocatable, column, lines)
            after = _at(self.used, column, lines) + amount * (placed + 1)
            taken = after / np.where(capacity > 0, capacity, np.inf)
            total += (taken if fill else 1 - taken) * weight
            overflow |= after > capacity
        weights = sum(weight for _, _, weight, _ in self.asked)
        return np.where(overflow, 0.0, total / weights * 100 * self.weight if weights else 0.0)


def _at(table: Floats, column: int, lines: Ints | None) -> Floats:
    values = table[:, column]
    return values if lines is None else values[lines]
