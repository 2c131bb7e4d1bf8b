"""One step for k identical pods gives the very nodes that k single steps give."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hekla.scheduler.arrays.greedy import place_identical, place_one_by_one
from hekla.scheduler.arrays.resources import Floats, Ints


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_scores_at_all_give_the_one_by_one_result(data: st.DataObject) -> None:
    nodes, depth = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 12))
    # Few distinct values: ties are where it would go wrong.
    table = data.draw(arrays.arrays(np.float64, (nodes, depth), elements=st.integers(0, 4).map(float)))
    room = data.draw(arrays.arrays(np.int64, nodes, elements=st.integers(0, depth)))
    count = data.draw(st.integers(1, nodes * depth + 2))

    def score(lines: Ints, placed: Ints) -> Floats:
        found: Floats = table[lines, placed]
        return found

    def score_one(lines: Ints, placed: Ints) -> Floats:
        return score(lines, np.minimum(placed, depth - 1))

    together = place_identical(count, room, score)
    assert together.tolist() == place_one_by_one(count, room, score_one).tolist()


def test_with_less_room_than_pods_the_rest_is_left_out() -> None:
    room = np.array([2, 0, 1])
    assert place_identical(9, room, _flat).tolist() == [0, 0, 2]


def test_no_room_gives_no_nodes() -> None:
    assert place_identical(3, np.zeros(4, dtype=np.int64), _flat).tolist() == []


def _flat(lines: Ints, placed: Ints) -> Floats:
    return np.zeros(len(lines))
