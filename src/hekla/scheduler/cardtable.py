"""GPU cards of the nodes, and who holds how much of which: what nodes and pods say, as tables kept pod by pod.

Every pod that has cards says which in an annotation. One that asks for cards and is on a node without it (somebody else
put it there) counts on the node as a whole, and on none of its cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hekla.api.devices import GPU_MEMORY, GPU_NUMBER
from hekla.scheduler.arrays.resources import Flags, Floats, new_table
from hekla.scheduler.rows import Node, Pod, PodStatus

_UNIT = 1000.0  # amounts are stored in thousandths


class CardRequest(NamedTuple):
    """So many whole cards, or else a part of one."""

    whole: int
    share: float

    def of_each(self, card: float) -> float:
        """What it takes of each card it gets, where a whole one has so much."""
        return card if self.whole else self.share


def card_request(request: Mapping[str, float]) -> CardRequest | None:
    """What a pod asks of cards; None where it asks for nothing. Who asks for whole cards gets them whole."""
    whole, share = request.get(GPU_NUMBER, 0.0), request.get(GPU_MEMORY, 0.0)
    if not whole and not share:
        return None
    return CardRequest(int(-(-whole // _UNIT)), share)


@dataclass(frozen=True, slots=True, eq=False)
class Cards:
    """The cards of all nodes: a line a node, a column a card."""

    size: Floats  # of each of a node's cards
    there: Flags  # whether the node has such a card, in good health
    used: Floats
    leaving: Floats  # what of `used` belongs to pods that are on their way out


class CardTable:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.size: Floats = np.array([node.cards.size if node.cards else 0.0 for node in nodes])
        most = max((max(node.cards.healthy, default=-1) + 1 for node in nodes if node.cards), default=0)
        self._there: Flags = np.zeros((len(nodes), most), dtype=bool)
        for line, node in enumerate(nodes):
            if node.cards:
                self._there[line, list(node.cards.healthy)] = True
        self._used, self._leaving = new_table(len(nodes), most), new_table(len(nodes), most)

    def charge(self, pod: Pod, line: int, sign: float) -> None:
        """Count a pod on its cards, or take it off."""
        request = card_request(pod.shape.request)
        if request is None:
            return
        amount = request.of_each(float(self.size[line])) * sign
        for card in self._known(pod.cards):
            self._used[line, card] += amount
            if pod.status is PodStatus.RELEASING:
                self._leaving[line, card] += amount

    def snapshot(self) -> Cards:
        return Cards(self.size, self._there, self._used.copy(), self._leaving.copy())

    def _known(self, cards: Iterable[int]) -> Iterable[int]:
        return (card for card in cards if card < self._there.shape[1])
