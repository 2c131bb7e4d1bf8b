"""How much of the room on GPU cards is of no use to the pods that come, and how placing a pod adds to that.

Pods of one kind can use of a node the cards that have enough room for one of them, as far as its CPU and memory go, if
there are as many cards as one wants; what else is free is a fragment to them. A node's fragmentation is what is a
fragment to a pod drawn from the typical ones, on average, and pods are put where it grows least. The idea is that of
Weng et al., Beware of Fragmentation (USENIX ATC 2023), where CPU and memory count as enough if they are enough for one
pod. Here they say for how many, so that CPU is spared where cards have little of it before it has run out.

Weights are numbers of pods and amounts are whole numbers, so that sums are exact in whatever order they are made. Nodes
are lines; room is what each card has free, below zero where there is no card.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints

# A table of nodes, cards and kinds that stays in a core's cache: seven times as fast with 5,000 nodes of 8 cards.
_NODES_AT_A_TIME = 256


class Demand(NamedTuple):
    """What a pod asks for: so many whole cards, or else a part of one, or neither."""

    cpu: float
    memory: float
    whole: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """What some nodes have free."""

    cpu: Floats
    memory: Floats
    cards: Floats
    size: Floats  # of a whole card

    @property
    def idle(self) -> Flags:
        """The cards that nobody is on."""
        found: Flags = (self.cards == self.size[:, None]) & (self.size[:, None] > 0)
        return found

    def portions(self) -> Iterator[Room]:
        """The nodes in their order, some at a time."""
        for first in range(0, len(self.size), _NODES_AT_A_TIME):
            some = slice(first, first + _NODES_AT_A_TIME)
            yield Room(self.cpu[some], self.memory[some], self.cards[some], self.size[some])

    def less(self, demand: Demand, pods: Floats | float = 1.0) -> Room:
        """With so many pods on the nodes, and what they have of cards left aside."""
        return Room(self.cpu - demand.cpu * pods, self.memory - demand.memory * pods, self.cards, self.size)


class TypicalPods:
    """One kind at least.

    Tables have a line a node and a column a kind: those that ask for a part of a card, then those for whole ones.
    """

    def __init__(self, demands: Sequence[Demand], numbers: Sequence[int]) -> None:
        """`demands` (of cards, all of them) and how many pods have each."""
        kinds = sorted(zip(demands, numbers), key=lambda kind: bool(kind[0].whole))
        self._shares = np.array([demand.share for demand, _ in kinds if not demand.whole])
        self._wholes = np.array([demand.whole for demand, _ in kinds if demand.whole], dtype=float)
        self._cpu = np.array([demand.cpu for demand, _ in kinds], dtype=float)
        self._memory = np.array([demand.memory for demand, _ in kinds], dtype=float)
        self._weights = np.array([number for _, number in kinds], dtype=float)
        self._pods = float(self._weights.sum())

    def __len__(self) -> int:
        return len(self._weights)

    def growth_without_cards(self, room: Room, demand: Demand, placed: Floats | float = 0.0) -> Floats:
        """Of each node, by one more pod that asks for no card, after `placed` of its kind."""
        usable = self._on_cards(room)
        before, after = (self._usable(room.less(demand, placed + more), usable) for more in (0.0, 1.0))
        return self._average(before - after)

    def growth_by_whole(self, room: Room, demand: Demand) -> Floats:
        """Of each node, by a pod that gets whole cards; of no meaning where too few are idle."""
        usable, split = self._on_cards(room), len(self._shares)
        idle = np.count_nonzero(room.idle, axis=1)
        cards = np.minimum(idle, demand.whole)
        left = np.empty_like(usable)
        of_each = np.where(room.size[:, None] >= self._shares, room.size[:, None], 0.0)
        left[:, :split] = usable[:, :split] - of_each * cards[:, None]
        left[:, split:] = self._on_idle(idle - cards, room.size)
        lost = self._usable(room, usable) - self._usable(room.less(demand), left)
        growth: Floats = self._average(lost) - room.size * cards
        return growth

    def growth_by_share(self, room: Room, demand: Demand) -> Floats:
        """Of each node, by a pod on each of its cards; infinite where the card has too little room."""
        found = [self._growth_by_share(some, demand) for some in room.portions()]
        return np.concatenate(found) if found else np.empty(room.cards.shape)

    def _growth_by_share(self, room: Room, demand: Demand) -> Floats:
        usable, split, after = self._on_cards(room), len(self._shares), room.less(demand)
        cards, left = room.cards[:, :, None], room.cards[:, :, None] - demand.share
        # Nodes, cards, kinds: what could be used with the pod on that card.
        then = np.empty((*room.cards.shape, len(self._weights)))
        then[:, :, :split] = usable[:, None, :split] - np.where(cards >= self._shares, cards, 0.0)
        then[:, :, :split] += np.where(left >= self._shares, left, 0.0)
        idle = np.count_nonzero(room.idle, axis=1)
        fewer = self._on_idle(np.maximum(idle - 1, 0), room.size)
        then[:, :, split:] = np.where(room.idle[:, :, None], fewer[:, None, :], usable[:, None, split:])
        np.minimum(then, self._limits(after)[:, None, :], out=then)
        growth: Floats = self._average(self._usable(room, usable)[:, None] - then @ self._weights) - demand.share
        return np.where(room.cards >= demand.share, growth, np.inf)

    def _usable(self, room: Room, on_cards: Floats) -> Floats:
        """What pods of all kinds together could use, each kind as often as there are pods of it."""
        found: Floats = np.minimum(on_cards, self._limits(room)) @ self._weights
        return found

    def _limits(self, room: Room) -> Floats:
        """What pods of each kind could use of cards before CPU or memory is at an end."""
        of_each = np.empty((len(room.size), len(self._weights)))
        of_each[:, : len(self._shares)] = self._shares
        of_each[:, len(self._shares) :] = self._wholes * room.size[:, None]
        return np.minimum(_limit(of_each, room.cpu, self._cpu), _limit(of_each, room.memory, self._memory))

    def _on_cards(self, room: Room) -> Floats:
        """What of the cards pods of each kind could use, if CPU and memory were no matter."""
        cards = room.cards[:, :, None]
        shared = np.where(cards >= self._shares, cards, 0.0).sum(axis=1)
        return np.concatenate([shared, self._on_idle(np.count_nonzero(room.idle, axis=1), room.size)], axis=1)

    def _on_idle(self, idle: Ints, size: Floats) -> Floats:
        found: Floats = np.where(idle[:, None] >= self._wholes, (idle * size)[:, None], 0.0)
        return found

    def _average(self, sums: Floats) -> Floats:
        return sums / self._pods


def _limit(of_each: Floats, free: Floats, asked: Floats) -> Floats:
    """How much pods that ask for so much can use, `of_each` one; what they do not ask for is never at an end."""
    found = np.floor(of_each * free[:, None] / np.maximum(asked, 1.0))
    found[free[:, None] < asked] = 0.0
    return np.where(asked > 0, found, np.inf)
