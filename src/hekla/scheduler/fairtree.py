"""Dominant resource fairness in a tree of departments: who has least of what it is still hungry for comes first.

The tree is what queues are annotated with (`root/science/dev` and its weights); their groups are its leaves. What a
node of the tree holds counts as if all its children that still want more had equally much: so a child that hoards
cannot push its siblings back. What wants no more, or only what there is no more of, is saturated and comes last.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hekla.scheduler.arrays.resources import TOLERANCE, Flags, Floats
from hekla.scheduler.rows import Queue
from hekla.scheduler.session import GroupState


class Rank(tuple[float, ...]):
    """Saturation and share, level by level; ranks that are alike as far down as both go are equal."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # what is equal is not always equal to the same

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self[: len(other)] == other[: len(self)]

    def __lt__(self, other: tuple[float, ...]) -> bool:
        return self[: len(other)] < other[: len(self)]


class FairTree:
    """Changes with every placement; what depends on a change is worked out when next asked for."""

    def __init__(self, total: Floats, states: Iterable[GroupState], requests: Floats) -> None:
        self._total = total
        self._root = _Branch(1.0)
        self._branches: dict[str, _Branch] = {}  # by queue
        self._held: Floats = np.zeros(len(total))
        self._demanding: Flags | None = None
        for state in states:
            self._branch(state.queue).add(state, requests[state.group.shape].sum(axis=0))
            self._held = self._held + state.group.allocated

    def move(self, state: GroupState, amount: Floats) -> None:
        """The group came to hold `amount` more."""
        self._held = self._held + amount
        self._branch(state.queue).move(state, amount)

    def rank(self, queue: Queue) -> Rank:
        """Smaller comes first: level by level from below the root, the saturated after the hungry, then by share."""
        self._refresh()
        ranks: list[float] = []
        branch: _Branch | None = self._branch(queue)
        while branch is not None and branch.parent is not None:
            ranks[:0] = [float(branch.saturated), branch.share / branch.weight]
            branch = branch.parent
        return Rank(ranks)

    def _refresh(self) -> None:
        demanding = self._held < self._total
        if self._demanding is None or bool(np.any(demanding != self._demanding)):
            self._demanding = demanding
            self._root.mark_all()
        self._root.refresh(self._total, demanding)

    def _branch(self, queue: Queue) -> _Branch:
        found = self._branches.get(queue.name)
        if found is None:
            found = self._root
            for name, weight in queue.hierarchy:
                found = found.child(name, weight)
            self._branches[queue.name] = found
        return found


class _Branch:
    def __init__(self, weight: float, parent: _Branch | None = None) -> None:
        self.weight = weight
        self.parent = parent
        self.share = 0.0
        self.saturated = True
        self._allocated: Floats | None = None
        self._children: dict[str, _Branch] = {}
        self._lines: dict[int, int] = {}  # of its groups, by id of their state
        self._rows: list[Floats] = []  # what they hold
        self._requests: list[Floats] = []  # what they ask for in all
        self._stale = True

    def child(self, name: str, weight: float) -> _Branch:
        if name not in self._children:
            self._children[name] = _Branch(weight, self)
        return self._children[name]

    def add(self, state: GroupState, request: Floats) -> None:
        self._lines[id(state)] = len(self._rows)
        self._rows.append(state.group.allocated)
        self._requests.append(request)
        self._mark()

    def move(self, state: GroupState, amount: Floats) -> None:
        line = self._lines[id(state)]
        self._rows[line] = self._rows[line] + amount
        self._mark()

    def mark_all(self) -> None:
        self._stale = True
        for child in self._children.values():
            child.mark_all()

    def refresh(self, total: Floats, demanding: Flags) -> None:
        if not self._stale:
            return
        for child in self._children.values():
            child.refresh(total, demanding)
        held, shares, saturated = self._members(total, demanding)
        counted = shares > 0
        hungry = counted & ~saturated
        # All that still want more count as if they had as little as the one that has least.
        least = min(1.0, float(shares[hungry].min(initial=1.0)))
        factors = np.where(hungry, np.divide(least, shares, out=np.ones_like(shares), where=counted), 1.0)
        self._allocated = (held[counted] * factors[counted, None]).sum(axis=0)
        self.share = float(_shares(self._allocated[None], total)[0])
        self.saturated = bool(saturated.all())
        self._stale = False

    def _members(self, total: Floats, demanding: Flags) -> tuple[Floats, Floats, Flags]:
        """What children and groups hold, their shares, and who of them wants no more."""
        children = list(self._children.values())
        rows = np.array(self._rows).reshape(len(self._rows), len(total))
        requests = np.array(self._requests).reshape(rows.shape)
        full = (rows >= TOLERANCE) & (requests > 0) & ((rows >= requests) | ~demanding)
        held = np.array([child.allocated for child in children]).reshape(len(children), len(total))
        shares = np.array([child.share for child in children])
        saturated = np.array([child.saturated for child in children], dtype=bool)
        return (
            np.concatenate([held, rows]),
            np.concatenate([shares, _shares(rows, total)]),
            np.concatenate([saturated, full.any(axis=1)]),
        )

    @property
    def allocated(self) -> Floats:
        assert self._allocated is not None
        return self._allocated

    def _mark(self) -> None:
        branch: _Branch | None = self
        while branch is not None and not branch._stale:
            branch._stale = True
            branch = branch.parent


def _shares(rows: Floats, total: Floats) -> Floats:
    """The dominant share of each line, over what the cluster has."""
    there = total > 0
    if not there.any():
        return np.zeros(len(rows))
    found: Floats = (rows[:, there] / total[there]).max(axis=1)
    return found
