"""Scores that spread pods out, by free room and by balance, for all nodes at once and at any depth of a batch.

What does not depend on the pod is kept in a table that follows the session: a pod costs a few sums over it, or over a
block of it where bounds show the rest to be worse (`blocks.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hekla.scheduler.arrays.blocks import WORTHWHILE, Bounded, Ranges
from hekla.scheduler.arrays.resources import Floats, Ints

_EPSILON = 1e-9
_WHOLE = 100 + _EPSILON
_UNCHANGED = 150.0  # half of it is what a pod gets that leaves a node as balanced as it was
_REST_OF_BOUNDS = 32

Part = Floats | float


class Spread:
    """LeastAllocated, MostAllocated and BalancedAllocation, each 0 … 100 times its weight, added up.

    `table` has four rows: of every node the percentage free of CPU, that of memory, half of how far the use of one is
    ahead of the other's, and what its balance without the pod counts for: it is the change that gets points.
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
        self.table = np.empty((4, len(allocatable)))
        self._fill(slice(None))
        # Bounds that spare the look at every node: no node has less free, no pod takes more of a node.
        self.least_free = self.table[:2].min(axis=1, initial=np.inf).tolist()
        self.largest_scale = self.scale.max(axis=0, initial=0.0).tolist()
        # For sums over all nodes: fresh memory for each of them costs more than the sum.
        self.desk = np.empty((3, len(allocatable)))
        self.without_bounds = 0  # how many more pods are to be placed without a look at bounds
        self._blocks: _Blocks | None = None

    @property
    def counts(self) -> bool:
        return bool(self.least or self.most or self.balance)

    def percentage(self, column: int, amount: float, lines: Ints | slice | None, times: Ints | int) -> Part:
        """What `times` such amounts take of each node."""
        alike = self.alike[column]
        taken: Part = (_at(self.scale, column, lines) if alike is None else alike) * (np.float64(amount) * times)
        return taken

    def blocks(self) -> _Blocks:
        self.follow()
        if self._blocks is None:
            self._blocks = _Blocks(self)
        return self._blocks

    def follow(self) -> None:
        """Bring the table up to date."""
        if self._seen == len(self._changes):
            return
        for lines in self._changes[self._seen :]:
            if len(lines) == 1:
                self._follow_one(int(lines[0]))
                continue
            self._fill(lines)
            self.least_free = list(map(min, self.least_free, self.table[:2, lines].min(axis=1).tolist()))
            self._blocks = None
        self._seen = len(self._changes)

    def _fill(self, lines: Ints | slice) -> None:
        cpu, memory = self.scale[lines, 0], self.scale[lines, 1]
        self.table[0, lines] = _WHOLE - self.assumed[lines, 0] * cpu
        self.table[1, lines] = _WHOLE - self.assumed[lines, 1] * memory
        self.table[2, lines] = apart = (self.used[lines, 0] * cpu - self.used[lines, 1] * memory) * 0.5
        self.table[3, lines] = _without(apart)

    def _follow_one(self, line: int) -> None:
        cpu, memory, table = self.scale.item(line, 0), self.scale.item(line, 1), self.table
        table[0, line] = free_cpu = _WHOLE - self.assumed.item(line, 0) * cpu
        table[1, line] = free_memory = _WHOLE - self.assumed.item(line, 1) * memory
        table[2, line] = apart = (self.used.item(line, 0) * cpu - self.used.item(line, 1) * memory) * 0.5
        table[3, line] = _UNCHANGED - math.floor(_WHOLE - abs(apart))
        least_cpu, least_memory = self.least_free
        self.least_free = [min(least_cpu, free_cpu), min(least_memory, free_memory)]
        if self._blocks is not None:
            self._blocks.table.widen(line)


class _Blocks:
    """Of each block of nodes the ranges of what `Spread` keeps of them."""

    def __init__(self, spread: Spread) -> None:
        self.table = Ranges(spread.table)
        self._alike = spread.alike
        self._scale = None if None not in spread.alike else Ranges(spread.scale.T)

    def percentage(self, column: int, amount: float) -> tuple[Part, Part]:
        """The least and the most that one such amount takes of a node of each block."""
        alike = self._alike[column]
        if alike is not None or self._scale is None:
            return (alike or 0.0) * amount, (alike or 0.0) * amount
        return self._scale.lowest[column] * amount, self._scale.highest[column] * amount


@dataclass(slots=True, eq=False)
class SpreadOfClass(Bounded):
    """`Spread` for pods of one class. What it says of all nodes holds until it is asked again."""

    spread: Spread
    assumed: tuple[float, float]
    balanced: Sequence[tuple[int, float]]  # column, amount; none for pods for which balance does not count
    crowded: bool  # promises or leaving pods about: what fits may still add up to more than there is

    @property
    def _is_short(self) -> bool:
        return self.spread.simple and not self.crowded and len(self.balanced) == 2

    def __call__(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        if self._is_short:
            return self._short_way(lines, placed)
        spread = self.spread
        total = np.zeros(len(_at(spread.allocatable, 0, lines)))
        if spread.least or spread.most:
            total += self._room(lines, placed)
        if spread.balance and self.balanced:
            total += spread.balance * self._balance(lines, placed)
        return total

    def bounds(self) -> Floats | None:
        """The short way with the best that a block has of everything: each step keeps the order of its arguments.

        Weights below zero would turn it round.
        """
        spread = self.spread
        if spread.table.shape[1] < WORTHWHILE or not self._is_short or min(spread.least, spread.balance) < 0:
            return None
        if spread.without_bounds:
            spread.without_bounds -= 1
            return None
        blocks = spread.blocks()
        lowest, highest = blocks.table.lowest, blocks.table.highest
        (cpu, most_cpu), (memory, most_memory) = (blocks.percentage(at, self.assumed[at]) for at in (0, 1))
        points = np.empty((3, highest.shape[1]))
        np.subtract(highest[0], cpu, out=points[0])
        np.subtract(highest[1], memory, out=points[1])
        if self._asked != self.assumed:
            (cpu, most_cpu), (memory, most_memory) = (blocks.percentage(at, self._asked[at]) for at in (0, 1))
        # How far apart use is at least: not at all, where nodes of a block lean to either side.
        towards_cpu, towards_memory = (cpu - most_memory) * 0.5, (most_cpu - memory) * 0.5
        points[2] = _least_apart(lowest[2], highest[2], towards_cpu, towards_memory)
        # Nor can the node that gains most gain more than what leans least wrongly at either end of the block.
        gains = [np.abs(end) - _least_apart(end, end, towards_cpu, towards_memory) for end in (lowest[2], highest[2])]
        gain = np.floor(np.maximum(*gains) + _EPSILON) + 1
        return self._total(points, highest[3], self._may_overflow, gain)

    def tighten(self, block: int) -> None:
        self.spread.blocks().table.narrow(block)

    def bounds_failed(self) -> None:
        self.spread.without_bounds = _REST_OF_BOUNDS

    @property
    def _asked(self) -> tuple[float, float]:
        return self.balanced[0][1], self.balanced[1][1]

    def _short_way(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        """The same figures in half the steps, for nodes that have both resources and a pod that fits."""
        spread, times = self.spread, placed + 1
        spread.follow()
        table = spread.table if lines is None else spread.table[:, lines]
        points = spread.desk if lines is None else np.empty((3, table.shape[1]))
        cpu = spread.percentage(0, self.assumed[0], lines, times)
        memory = spread.percentage(1, self.assumed[1], lines, times)
        np.subtract(table[0], cpu, out=points[0])
        np.subtract(table[1], memory, out=points[1])
        if self._asked != self.assumed:
            cpu = spread.percentage(0, self._asked[0], lines, times)
            memory = spread.percentage(1, self._asked[1], lines, times)
        leaning = (cpu - memory) * 0.5
        apart = np.add(table[2], leaning, out=points[2])
        np.abs(apart, out=apart)
        without = table[3]
        if isinstance(placed, np.ndarray) and placed.any():
            without = _without(table[2] + leaning / times * placed)
        elif isinstance(placed, int) and placed:
            without = _without(table[2] + leaning * (placed / times))
        return self._total(points, without, isinstance(lines, np.ndarray) or self._may_overflow)

    @property
    def _may_overflow(self) -> bool:
        """Whether there may be a node on which one pod more, that need not fit, leaves less than nothing."""
        (cpu, memory), (free_cpu, free_memory) = self.spread.largest_scale, self.spread.least_free
        return bool(self.assumed[0] * cpu > free_cpu or self.assumed[1] * memory > free_memory)

    def _total(self, points: Floats, without: Floats, may_overflow: bool, gain: Floats | None = None) -> Floats:
        """Points from percentages left free of CPU and of memory, and half of how far use is apart. In place.

        `without` is what there is to say of the balance without the pod; nobody gets more than `gain` better by it.
        """
        spread = self.spread
        balance: Floats = points[2]
        np.subtract(_WHOLE, balance, out=balance)
        np.floor(points, out=points)
        if may_overflow:
            np.maximum(points[:2], 0.0, out=points[:2])
        points[1] += points[0]
        balance += without
        if gain is not None:
            np.minimum(balance, _UNCHANGED + gain, out=balance)
        halves = points[1:]
        halves *= 0.5
        np.floor(halves, out=halves)
        total: Floats = points[1]
        if spread.least != 1:
            total *= spread.least
        if spread.balance != 1:
            balance *= spread.balance
        total += balance
        return total

    def _room(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        spread = self.spread
        least = np.zeros(len(_at(spread.allocatable, 0, lines)))
        most, present = np.zeros_like(least), np.zeros_like(least)
        for column, amount in enumerate(self.assumed):
            capacity = _at(spread.allocatable, column, lines)
            after = _at(spread.assumed, column, lines) + amount * (placed + 1)
            percent = after * 100 / np.where(capacity > 0, capacity, np.inf)
            # Pods that ask for nothing may add up to more than there is: such a node is full.
            np.minimum(percent, 100.0, out=percent)
            least += np.where(capacity > 0, np.floor(100 - percent + _EPSILON), 0.0)
            if spread.most:
                most += np.floor(percent + _EPSILON)
            present += capacity > 0
        np.maximum(present, 1.0, out=present)
        total: Floats = spread.least * np.floor(least / present) + spread.most * np.floor(most / present)
        return total

    def _balance(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        """From 50 to 100, and 75 where a pod leaves a node as balanced as it was."""
        change = self._balanced(lines, placed + 1) - self._balanced(lines, placed)
        score: Floats = np.floor((_UNCHANGED + change) * 0.5)
        return score

    def _balanced(self, lines: Ints | slice | None, pods: Ints | int) -> Floats:
        """From 50 to 100: how balanced nodes are with so many pods of the class."""
        spread = self.spread
        fractions = []
        for column, amount in self.balanced:
            capacity = _at(spread.allocatable, column, lines)
            in_use = _at(spread.used, column, lines) + _at(spread.pipelined, column, lines)
            fraction = (in_use + amount * pods) / np.where(capacity > 0, capacity, np.inf)
            fractions.append(np.minimum(fraction, 1.0))
        if len(fractions) == 2:
            deviation = np.abs(fractions[0] - fractions[1]) / 2
        else:
            deviation = np.std(np.array(fractions), axis=0)
        score: Floats = np.floor((1 - deviation) * 100 + _EPSILON)
        return score


def _without(apart: Floats) -> Floats:
    """What nodes whose use of CPU and memory is that far apart (half of it, in percent) have to set against a pod."""
    found: Floats = _UNCHANGED - np.floor(_WHOLE - np.abs(apart))
    return found


def _least_apart(lowest: Floats, highest: Floats, towards_cpu: Part, towards_memory: Part) -> Floats:
    """How far apart use is at least after a pod, of nodes in that range, which it moves by something in that range."""
    found: Floats = np.maximum(lowest + towards_cpu, -(highest + towards_memory))
    return np.maximum(found, 0.0, out=found)


def _only_value(column: Floats) -> float | None:
    return float(column[0]) if len(column) and bool(np.all(column == column[0])) else None


def _at(table: Floats, column: int, lines: Ints | slice | None) -> Floats:
    values = table[:, column]
    return values if lines is None else values[lines]
