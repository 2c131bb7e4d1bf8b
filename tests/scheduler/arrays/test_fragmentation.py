"""Fragmentation as it is defined, pod by pod and card by card, against the sums over all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.scheduler.arrays.fragmentation import Demand, Room, TypicalPods

SIZE = 10
demands = st.one_of(
    st.builds(lambda cpu, memory, share: Demand(cpu, memory, 0, share), *[st.integers(0, 9)] * 2, st.integers(1, SIZE)),
    st.builds(lambda cpu, memory, whole: Demand(cpu, memory, whole, 0), *[st.integers(0, 9)] * 2, st.integers(1, 3)),
)
kinds = st.lists(st.tuples(demands, st.integers(1, 9)), min_size=1, max_size=6)
cards = st.lists(st.integers(-1, SIZE), min_size=3, max_size=3)
nodes = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), cards), min_size=1, max_size=4)
Node = tuple[int, int, list[int]]
often = settings(max_examples=150, deadline=None)


def fragmentation(node: Node, kinds_: Sequence[tuple[Demand, int]]) -> Fraction:
    """What a pod drawn from the kinds cannot use of the node's cards, on average."""
    lost = sum(number * (free(node) - usable(node, demand)) for demand, number in kinds_)
    return Fraction(lost, sum(number for _, number in kinds_))


def free(node: Node) -> int:
    return sum(max(card, 0) for card in node[2])


def usable(node: Node, demand: Demand) -> int:
    cpu, memory, room = node
    if (demand.cpu and cpu < demand.cpu) or (demand.memory and memory < demand.memory):
        return 0
    idle = [card for card in room if card == SIZE]
    of_use = [card for card in room if card >= demand.share] if not demand.whole else idle
    asked = demand.whole * SIZE or int(demand.share)
    # So much before CPU or memory is at an end.
    limits = [free_ * asked // int(wanted) for free_, wanted in ((cpu, demand.cpu), (memory, demand.memory)) if wanted]
    return min([sum(of_use) if len(idle) >= demand.whole else 0, *limits])


def growth(node: Node, demand: Demand, taken: dict[int, int], kinds_: Sequence[tuple[Demand, int]]) -> Fraction:
    after = [card - taken.get(at, 0) for at, card in enumerate(node[2])]
    left = (node[0] - int(demand.cpu), node[1] - int(demand.memory), after)
    return fragmentation(left, kinds_) - fragmentation(node, kinds_)


def room_of(given_: Sequence[Node]) -> Room:
    return Room(
        np.array([cpu for cpu, _, _ in given_], dtype=float),
        np.array([memory for _, memory, _ in given_], dtype=float),
        np.array([room for _, _, room in given_], dtype=float),
        np.full(len(given_), float(SIZE)),
    )


def typical(kinds_: Sequence[tuple[Demand, int]]) -> TypicalPods:
    return TypicalPods([demand for demand, _ in kinds_], [number for _, number in kinds_])


@often
@given(kinds, nodes, st.builds(Demand, *[st.integers(0, 9)] * 2, st.just(0), st.integers(1, SIZE)))
def test_a_part_of_each_card(kinds_: list[tuple[Demand, int]], given_: list[Node], demand: Demand) -> None:
    found = typical(kinds_).growth_by_share(room_of(given_), demand)
    for line, node in enumerate(given_):
        for card, room in enumerate(node[2]):
            if room < demand.share:
                assert found[line, card] == np.inf
            else:
                expected = growth(node, demand, {card: int(demand.share)}, kinds_)
                assert abs(found[line, card] - expected) < 1e-9


@often
@given(kinds, nodes, st.builds(Demand, *[st.integers(0, 9)] * 2, st.integers(1, 3), st.just(0)))
def test_whole_cards(kinds_: list[tuple[Demand, int]], given_: list[Node], demand: Demand) -> None:
    found = typical(kinds_).growth_by_whole(room_of(given_), demand)
    for line, node in enumerate(given_):
        idle = [card for card, room in enumerate(node[2]) if room == SIZE]
        if len(idle) >= demand.whole:
            expected = growth(node, demand, dict.fromkeys(idle[: demand.whole], SIZE), kinds_)
            assert abs(found[line] - expected) < 1e-9


@often
@given(kinds, nodes, st.builds(Demand, *[st.integers(0, 9)] * 2, st.just(0), st.just(0)), st.integers(0, 3))
def test_no_card_at_all(kinds_: list[tuple[Demand, int]], given_: list[Node], demand: Demand, placed: int) -> None:
    found = typical(kinds_).growth_without_cards(room_of(given_), demand, float(placed))
    for line, (cpu, memory, room) in enumerate(given_):
        before = (cpu - placed * int(demand.cpu), memory - placed * int(demand.memory), room)
        assert abs(found[line] - growth(before, demand, {}, kinds_)) < 1e-9
