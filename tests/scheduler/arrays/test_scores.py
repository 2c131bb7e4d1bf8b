"""Scores against figures worked out by hand."""

from __future__ import annotations

import numpy as np

from hekla.scheduler.arrays.scores import Fullness, normalise
from hekla.scheduler.arrays.spread import Spread, SpreadOfClass

GI = float(1 << 30)


def test_packing_scores_by_weighted_fullness_and_gives_nothing_for_overflow() -> None:
    allocatable = np.array([[2000, 4 * GI], [4000, 16 * GI], [1000, 8 * GI]])
    used = np.array([[1000, 1 * GI], [0, 0], [1000, 0]])
    score = Fullness(allocatable, used, [(0, 1000.0, 2.0), (1, GI, 3.0)], 10.0)
    assert np.allclose(score(None, 0), [700, 137.5, 0])


def test_spreading_prefers_free_and_balanced_nodes_with_whole_numbers() -> None:
    allocatable = np.array([[4000, 8 * GI], [4000, 8 * GI], [3000, 8 * GI]])
    used = np.array([[0, 0], [2000, 0], [0, 0]])
    spread = Spread(allocatable, used, used, np.zeros_like(used), [], 1, 0, 1)
    score = SpreadOfClass(spread, (1000.0, 2 * GI), [(0, 1000.0), (1, 2 * GI)], False)
    # free: (75+75)/2, (25+75)/2, (66+75)/2; balance before: 100, 75, 100, after: 100, 75, 95; half the change around 75
    assert score(None, 0).tolist() == [75 + 75, 50 + 75, 70 + 72]


def test_what_improves_the_balance_of_a_node_gets_more_than_what_keeps_it() -> None:
    allocatable = np.array([[4000, 8 * GI]] * 3)
    used = np.array([[3000, 0], [0, 0], [0, 4 * GI]])
    spread = Spread(allocatable, np.zeros_like(used), used, np.zeros_like(used), [], 0, 0, 1)
    score = SpreadOfClass(spread, (0.0, 4 * GI), [(0, 0.0), (1, 4 * GI)], False)
    # before: 62, 100, 75; after: 87, 75, 50
    assert score(None, 0).tolist() == [87, 62, 62]


def test_a_node_that_is_more_than_full_by_what_is_assumed_counts_as_full_and_not_as_free() -> None:
    allocatable, assumed = np.array([[1000, 8 * GI], [1000, 8 * GI]]), np.array([[1000, 4 * GI], [500, 4 * GI]])
    used = np.zeros_like(assumed)
    least, most = (
        SpreadOfClass(Spread(allocatable, assumed, used, used, [], *weights, 0), (100.0, 0.0), [], False)
        for weights in ((1, 0), (0, 1))
    )
    assert least(None, 0).tolist() == [(0 + 50) // 2, (40 + 50) // 2]
    assert most(None, 0).tolist() == [(100 + 50) // 2, (60 + 50) // 2]


def test_the_score_at_a_depth_is_the_score_after_that_many_pods() -> None:
    allocatable = np.array([[8000, 8 * GI]])
    before, after = np.array([[1000, GI]]), np.array([[4000, 4 * GI]])
    at_depth, later = (
        SpreadOfClass(
            Spread(allocatable, used, used, np.zeros_like(used), [], 1, 1, 1),
            (1000.0, GI),
            [(0, 1000.0), (1, GI)],
            False,
        )
        for used in (before, after)
    )
    assert at_depth(np.array([0]), np.array([3])) == later(None, 0)


def test_normalising_is_relative_to_the_highest() -> None:
    assert normalise(np.array([0.0, 1.0, 3.0]), 2, reverse=False).tolist() == [0, 66, 200]
    assert normalise(np.array([0.0, 1.0]), 1, reverse=True).tolist() == [100, 0]
    assert normalise(np.zeros(2), 1, reverse=True).tolist() == [100, 100]
