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


def normalise(raw: Floats, weight: float, *, reverse: bool) -> Floats:
    """To 0 … 100 relative to the highest (reversed, the highest gets 0), times the weight."""
    highest = float(raw.max(initial=0.0))
    scaled = np.floor(raw * 100 / highest + _EPSILON) if highest > 0 else np.zeros_like(raw)
    result: Floats = (100 - scaled if reverse else scaled) * weight
    return result


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


class Spread:
    """LeastAllocated, MostAllocated and BalancedAllocation, each 0 … 100 times its weight, added up.

    What does not depend on the pod is kept in tables that follow the session's `changes`: of every node the percentage
    free of CPU and of memory, and how far the use of one is ahead of the other's.
    """

    def __init__(
        self,
        allocatable: Floats,
        assumed: Floats,  # CPU and memory in use, containers without requests included
        used: Floats,
        pipelined: Floats,
        changes: Sequence[Ints],
        least: int,
        most: int,
        balance: int,
    ) -> None:
        self.allocatable = allocatable
        self.assumed = assumed
        self.used = used
        self.pipelined = pipelined
        self.least = least
        self.most = most
        self.balance = balance
        self._changes = changes
        self._seen = 0
        # Where a node has no CPU or no memory at all, or the full ones are wanted, only the long way is right.
        self.simple = not most and bool(np.all(allocatable[:, :2] > 0))
        self.scale = np.asfortranarray(100 / np.where(allocatable[:, :2] > 0, allocatable[:, :2], np.inf))
        # Where all nodes are of one size the percentage a pod takes is the same on each: a number, not a column.
        self.alike = [_only_value(self.scale[:, column]) for column in (0, 1)]
        self.free = np.asfortranarray(100 + _EPSILON - assumed * self.scale)
        self.tilt = used[:, 0] * self.scale[:, 0] - used[:, 1] * self.scale[:, 1]
        # Bounds that spare the look at every node: no node has less free, no pod takes more of a node.
        self.least_free = self.free.min(axis=0, initial=np.inf).tolist()
        self.largest_scale = self.scale.max(axis=0, initial=0.0).tolist()

    @property
    def counts(self) -> bool:
        return bool(self.least or self.most or self.balance)

    def percentage(self, column: int, amount: float, lines: Ints | None, times: Ints | int) -> Floats | float:
        """What `times` such amounts take of each node."""
        alike = self.alike[column]
        taken: Floats | float = (_at(self.scale, column, lines) if alike is None else alike) * (
            np.float64(amount) * times
        )
        return taken

    def follow(self) -> None:
        """Bring the tables up to date."""
        for lines in self._changes[self._seen :]:
            if len(lines) == 1:
                self._follow_one(int(lines[0]))
                continue
            scale = self.scale[lines]
            self.free[lines] = 100 + _EPSILON - self.assumed[lines] * scale
            self.tilt[lines] = self.used[lines, 0] * scale[:, 0] - self.used[lines, 1] * scale[:, 1]
            self.least_free = list(map(min, self.least_free, self.free[lines].min(axis=0).tolist()))
        self._seen = len(self._changes)

    def _follow_one(self, line: int) -> None:
        cpu, memory = self.scale[line].tolist()
        assumed_cpu, assumed_memory = self.assumed[line].tolist()
        free_cpu, free_memory = 100 + _EPSILON - assumed_cpu * cpu, 100 + _EPSILON - assumed_memory * memory
        self.free[line] = (free_cpu, free_memory)
        self.least_free = [min(self.least_free[0], free_cpu), min(self.least_free[1], free_memory)]
        self.tilt[line] = float(self.used[line, 0]) * cpu - float(self.used[line, 1]) * memory


@dataclass(slots=True, eq=False)
class SpreadOfClass:
    """`Spread` for pods of one class."""

    spread: Spread
    assumed: tuple[float, float]
    balanced: Sequence[tuple[int, float]]  # column, amount
    crowded: bool  # promises or leaving pods about: what fits may still add up to more than there is

    def __call__(self, lines: Ints | None, placed: Ints | int) -> Floats:
        spread = self.spread
        if spread.simple and not self.crowded and len(self.balanced) == 2:
            return self._short_way(lines, placed)
        total = np.zeros(len(spread.allocatable) if lines is None else len(lines))
        if spread.least or spread.most:
            total += self._room(lines, placed)
        if spread.balance:
            total += spread.balance * self._balance(lines, placed)
        return total

    def _short_way(self, lines: Ints | None, placed: Ints | int) -> Floats:
        """The same figures in half the steps, for nodes that have both resources and a pod that fits."""
        spread, times = self.spread, placed + 1
        spread.follow()
        cpu, memory = (spread.percentage(column, self.assumed[column], lines, times) for column in (0, 1))
        balance = self._balance_after(cpu, memory, lines, times) if spread.balance else None
        score = self._whole_free(0, cpu, lines)
        score += self._whole_free(1, memory, lines)
        score *= 0.5
        np.floor(score, out=score)
        if spread.least != 1:
            score *= spread.least
        if balance is not None:
            score += balance
        return score

    def _whole_free(self, column: int, part: Floats | float, lines: Ints | None) -> Floats:
        """The whole percentage left free without `part`; never below zero."""
        spread = self.spread
        left: Floats = _at(spread.free, column, lines) - part
        np.floor(left, out=left)
        if lines is None and self.assumed[column] * spread.largest_scale[column] <= spread.least_free[column]:
            return left
        return np.maximum(left, 0.0, out=left)

    def _balance_after(
        self, cpu: Floats | float, memory: Floats | float, lines: Ints | None, times: Ints | int
    ) -> Floats:
        """`cpu` and `memory` are the percentages the pods would take by what scorers assume of them."""
        spread, asked = self.spread, (self.balanced[0][1], self.balanced[1][1])
        if asked != self.assumed:
            cpu, memory = (spread.percentage(column, asked[column], lines, times) for column in (0, 1))
        tilt: Floats = (cpu - memory) + (spread.tilt if lines is None else spread.tilt[lines])
        np.abs(tilt, out=tilt)
        tilt *= -0.5
        tilt += 100 + _EPSILON
        np.floor(tilt, out=tilt)
        if spread.balance != 1:
            tilt *= spread.balance
        return tilt

    def _room(self, lines: Ints | None, placed: Ints | int) -> Floats:
        spread = self.spread
        least = np.zeros(len(spread.allocatable) if lines is None else len(lines))
        most, present = np.zeros_like(least), np.zeros_like(least)
        for column, amount in enumerate(self.assumed):
            capacity = _at(spread.allocatable, column, lines)
            after = _at(spread.assumed, column, lines) + amount * (placed + 1)
            percent = after * 100 / np.where(capacity > 0, capacity, np.inf)
            inside = (capacity > 0) & (after <= capacity)
            least += np.where(inside, np.floor(100 - percent + _EPSILON), 0.0)
            if spread.most:
                most += np.where(inside, np.floor(percent + _EPSILON), 0.0)
            present += capacity > 0
        np.maximum(present, 1.0, out=present)
        total: Floats = spread.least * np.floor(least / present) + spread.most * np.floor(most / present)
        return total

    def _balance(self, lines: Ints | None, placed: Ints | int) -> Floats:
        spread = self.spread
        fractions = []
        for column, amount in self.balanced:
            capacity = _at(spread.allocatable, column, lines)
            in_use = _at(spread.used, column, lines) + _at(spread.pipelined, column, lines)
            fraction = (in_use + amount * (placed + 1)) / np.where(capacity > 0, capacity, np.inf)
            fractions.append(np.minimum(fraction, 1.0))
        if len(fractions) == 2:
            deviation = np.abs(fractions[0] - fractions[1]) / 2
        else:
            deviation = np.std(np.array(fractions), axis=0)
        score: Floats = np.floor((1 - deviation) * 100 + _EPSILON)
        return score


def _only_value(column: Floats) -> float | None:
    return float(column[0]) if len(column) and bool(np.all(column == column[0])) else None


def _at(table: Floats, column: int, lines: Ints | None) -> Floats:
    values = table[:, column]
    return values if lines is None else values[lines]
