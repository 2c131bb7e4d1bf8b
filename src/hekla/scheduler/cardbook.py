"""Which cards the pods of a cycle get: chosen as they are placed, given back as they are taken back.

There are two views of every card: what of it is free now, and what will be once the pods that are leaving have left,
promises kept. Who is to start at once needs both; who waits for others to leave needs the second. Amounts are whole
numbers, so that taking back restores both views to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hekla.scheduler.arrays.resources import Flags, Floats, Ints, new_table
from hekla.scheduler.cardtable import CardRequest, Cards, card_request
from hekla.scheduler.rows import Pod, PodStatus, Shape

# prefer(line, share, cards): which of a node's cards, all of which have room for it, gets a part of this size.
Prefer = Callable[[int, float, Ints], int]

_NO_CARD = -1.0


class CardBook:
    def __init__(self, cards: Cards, shapes: Sequence[Shape], *, sharing: bool) -> None:
        """Without `sharing` only pods that ask for whole cards are given any."""
        self._shapes = shapes
        self._sharing = sharing
        self._requests: dict[int, CardRequest | None] = {}
        self.size, self.there = cards.size, cards.there
        self._healthy = np.count_nonzero(cards.there, axis=1)
        self.now: Floats = np.where(cards.there, cards.size[:, None] - cards.used, _NO_CARD)
        self.later: Floats = np.where(cards.there, self.now + cards.leaving, _NO_CARD)
        self.chosen: dict[str, tuple[int, ...]] = {}  # by pod uid
        self.prefer: Prefer = first_card
        self._roomiest, self._idle = new_table(2, len(cards.size)), new_table(2, len(cards.size))
        self._look_at(slice(None))

    def request(self, shape: int) -> CardRequest | None:
        """What pods of the shape ask of cards, as far as that is given here."""
        if shape not in self._requests:
            request = card_request(self._shapes[shape].request)
            given = request is not None and (self._sharing or request.whole > 0)
            self._requests[shape] = request if given else None
        return self._requests[shape]

    def fits(self, request: CardRequest, *, at_once: bool) -> Flags:
        """Nodes whose cards have room for one more."""
        view = 0 if at_once else 1
        room, wanted = (self._idle, request.whole) if request.whole else (self._roomiest, request.share)
        found: Flags = room[view] >= wanted
        return found

    def ever_fits(self, request: CardRequest) -> Flags:
        """Nodes whose cards would do if nobody were on them."""
        found: Flags = self._healthy >= max(1, request.whole)
        return found & (self.size >= request.share) if not request.whole else found

    def most(self) -> int:
        """The most cards in good health that one node has."""
        return int(self._healthy.max(initial=0))

    def largest(self) -> float:
        """What the largest card in good health has, with nobody on it."""
        return float(self.size[self._healthy > 0].max(initial=0.0))

    def roomiest(self) -> float:
        """The most that one card will have free."""
        return float(self._roomiest[1].max(initial=0.0))

    def idlest(self) -> int:
        """The most cards that one node will have wholly free."""
        return int(self._idle[1].max(initial=0.0))

    def move(self, pod: Pod, request: CardRequest, line: int, status: PodStatus, sign: int) -> None:
        """A pod came to the node (+1) or is taken back (-1); one that is made to leave frees its cards for later."""
        if status is PodStatus.RELEASING:
            self._charge(line, pod.cards, request, sign, at_once=False)
            return
        at_once = status is not PodStatus.PIPELINED
        if sign > 0:
            self.chosen[pod.uid] = self._choose(line, request, at_once=at_once)
            self._charge(line, self.chosen[pod.uid], request, sign, at_once=at_once)
        else:
            self._charge(line, self.chosen.pop(pod.uid), request, sign, at_once=at_once)

    def room(self, line: int | Ints | slice, *, at_once: bool) -> Floats:
        """What each card of some nodes has free, below zero where there is no card."""
        room: Floats = self.later[line]
        return np.minimum(self.now[line], room) if at_once else room

    def _choose(self, line: int, request: CardRequest, *, at_once: bool) -> tuple[int, ...]:
        """Cards of the node; none where room was promised that its cards have not got."""
        room = self.room(line, at_once=at_once)
        if request.whole:
            idle = np.flatnonzero(self.there[line] & (room == self.size[line]))
            return tuple(idle[: request.whole].tolist()) if len(idle) >= request.whole else ()
        cards = np.flatnonzero(room >= request.share)
        return (self.prefer(line, request.share, cards),) if len(cards) else ()

    def _charge(self, line: int, cards: Sequence[int], request: CardRequest, sign: int, *, at_once: bool) -> None:
        amount = request.of_each(float(self.size[line])) * sign
        for card in cards:
            if card < self.there.shape[1] and self.there[line, card]:
                self.later[line, card] -= amount
                if at_once:
                    self.now[line, card] -= amount
        self._look_at(slice(line, line + 1))

    def _look_at(self, lines: slice) -> None:
        for view, at_once in enumerate((True, False)):
            room = self.room(lines, at_once=at_once)
            whole = self.there[lines] & (room == self.size[lines, None])
            self._roomiest[view, lines] = room.max(axis=1, initial=_NO_CARD)
            self._idle[view, lines] = np.count_nonzero(whole, axis=1)


def first_card(_line: int, _share: float, cards: Ints) -> int:
    return int(cards[0])
