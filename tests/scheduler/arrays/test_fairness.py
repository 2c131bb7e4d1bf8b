"""Sharing out between queues."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hekla.scheduler.arrays.fairness import share, water_fill


def test_what_one_cannot_use_goes_to_the_others_by_weight() -> None:
    deserved = water_fill(
        np.array([12.0]) * 1000,
        np.array([1.0, 2.0, 3.0]),
        np.array([[10.0], [2.0], [10.0]]) * 1000,
        np.array([[np.inf], [np.inf], [3.0]]) * 1000,
        np.zeros((3, 1)),
        np.array([True]),
    )
    assert np.allclose(deserved[:, 0], [7000, 2000, 3000], atol=1)


def test_what_does_not_count_is_not_handed_out_further_once_all_else_is_gone() -> None:
    deserved = water_fill(
        np.array([4000.0, 10.0]),
        np.array([1.0, 1.0]),
        np.array([[8000.0, 8.0], [2000.0, 2.0]]),
        np.full((2, 2), np.inf),
        np.zeros((2, 2)),
        np.array([True, False]),
    )
    assert deserved.tolist() == [[2000.0, 5.0], [2000.0, 2.0]]


amounts = st.integers(0, 20).map(lambda value: value * 1000.0)
queues = st.lists(
    st.tuples(st.integers(1, 5), amounts, st.one_of(st.just(float("inf")), amounts)), min_size=1, max_size=5
)


@given(amounts, queues)
def test_nobody_gets_more_than_asked_or_allowed_and_all_together_no_more_than_there_is(
    total: float, rows: list[tuple[int, float, float]]
) -> None:
    request = np.array([[row[1]] for row in rows])
    ceiling = np.array([[row[2]] for row in rows])
    weight = np.array([float(row[0]) for row in rows])
    deserved = water_fill(np.array([total]), weight, request, ceiling, np.zeros_like(request), np.array([True]))
    assert np.all(deserved <= np.minimum(request, ceiling))
    assert deserved.sum() <= total + 1


def test_a_share_is_that_of_the_resource_one_has_most_of_among_those_one_is_entitled_to() -> None:
    nothing = [0.0, 0.0]
    assert share(nothing, nothing) == 0
    assert share([1.0, 0.0], nothing) == 0
    assert share([1.0, 3.0], [4.0, 4.0]) == 0.75
    assert share([1.0, 3.0], [4.0, 0.0]) == 0.25
