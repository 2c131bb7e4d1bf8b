"""Pods where the room on GPU cards stays of most use to those that come after them.

Who comes after them is taken to be like the pods there are: those of all groups, waiting, running and ended. What a
node is worth to pods of one shape is worked out when the node has changed, and kept otherwise.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from hekla.scheduler.arrays.fragmentation import Demand, Room, TypicalPods
from hekla.scheduler.arrays.resources import CPU, MEMORY, Floats, Ints
from hekla.scheduler.cardbook import CardBook
from hekla.scheduler.rows import Shape
from hekla.scheduler.session import Session

_POINTS = 100.0  # for a card that stays of use to everybody
_MOST_KINDS = 128  # of typical pods; the rarest are left out


class LeastFragments:
    def __init__(self, session: Session, book: CardBook) -> None:
        self._session = session
        self._book = book
        self._typical = typical_pods(session, book)
        self._unit = float(book.size.max(initial=1.0))
        self._scores: dict[int, _ShapeScore] = {}

    def score(self, shape: int, weight: float) -> _ShapeScore | None:
        """What speaks for nodes; nothing where nobody wants a card."""
        if not self._typical:
            return None
        found = self._scores.get(shape)
        if found is None:
            found = self._scores[shape] = _ShapeScore(self, shape, weight)
        return found

    def prefer(self, line: int, share: float, cards: Ints) -> int:
        """The card, of those with room for the share, on which it leaves least that is of no use."""
        # The pod's CPU and memory are on the node already.
        growth = self._typical.growth_by_share(self._room(slice(line, line + 1)), Demand(0.0, 0.0, 0, share))[0]
        return int(cards[growth[cards].argmin()])

    def points(self, shape: int, lines: Ints | slice, placed: Ints | int) -> Floats:
        """How little is lost by one more pod of the shape: 100 for a card's worth, below zero where some is lost."""
        demand = demand_of(self._session.snapshot.shapes[shape], self._book, shape)
        room = self._room(lines)
        if demand.whole:
            growth = self._typical.growth_by_whole(room, demand)
        elif demand.share:
            growth = self._typical.growth_by_share(room, demand).min(axis=1, initial=np.inf)
            growth[np.isinf(growth)] = self._unit
        else:
            growth = self._typical.growth_without_cards(room, demand, np.asarray(placed, dtype=float))
        return growth * (-_POINTS / self._unit)

    @property
    def changes(self) -> list[Ints]:
        return self._session.changes

    def _room(self, lines: Ints | slice) -> Room:
        idle = self._session.idle
        return Room(idle[lines, 0], idle[lines, 1], self._book.room(lines, at_once=True), self._book.size[lines])


class _ShapeScore:
    """A `PairScore`: what it says of a node holds until something changes there.

    Nothing is worked out before somebody asks: where no node has room for a pod, nobody does.
    """

    def __init__(self, policy: LeastFragments, shape: int, weight: float) -> None:
        self._policy = policy
        self._shape = shape
        self._weight = weight
        self._seen = 0  # of the changes
        self._points: Floats | None = None

    def __call__(self, lines: Ints | slice | None, placed: Ints | int) -> Floats:
        if np.any(placed):
            return self._worth(slice(None) if lines is None else lines, placed)
        points = self._now()
        return points if lines is None else points[lines]

    def _now(self) -> Floats:
        changes = self._policy.changes
        if self._points is None:
            self._points = self._worth(slice(None))
        elif self._seen < len(changes):
            changed = np.unique(np.concatenate(changes[self._seen :]))
            self._points[changed] = self._worth(changed)
        self._seen = len(changes)
        return self._points

    def _worth(self, lines: Ints | slice, placed: Ints | int = 0) -> Floats:
        return self._weight * self._policy.points(self._shape, lines, placed)


def typical_pods(session: Session, book: CardBook) -> TypicalPods:
    """The pods of all groups by what they ask for, the most frequent kinds."""
    groups = (*session.snapshot.groups, *session.snapshot.resting)
    columns = [group.shape for group in groups] or [np.empty(0, dtype=np.int64)]
    kinds: Counter[Demand] = Counter()
    for shape, number in enumerate(np.bincount(np.concatenate(columns)).tolist()):
        if number and book.request(shape) is not None:
            kinds[demand_of(session.snapshot.shapes[shape], book, shape)] += number
    common = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:_MOST_KINDS]
    return TypicalPods([demand for demand, _ in common], [number for _, number in common])


def demand_of(kind: Shape, book: CardBook, shape: int) -> Demand:
    request = book.request(shape)
    cpu, memory = kind.request.get(CPU, 0.0), kind.request.get(MEMORY, 0.0)
    if request is None:
        return Demand(cpu, memory, 0, 0.0)
    return Demand(cpu, memory, request.whole, 0.0 if request.whole else request.share)
