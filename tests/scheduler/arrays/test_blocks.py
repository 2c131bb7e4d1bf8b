"""The best node by blocks is the best node of a look at all of them, whatever the nodes look like."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.scheduler.arrays.blocks import SIZE, WORTHWHILE, best_line
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.arrays.spread import Spread, SpreadOfClass

GI = float(1 << 30)
NODES = WORTHWHILE + SIZE // 2  # the last block is not full


class Cluster:
    """Nodes that are placed on at random; what is in use is `fill` of a node at most, before that."""

    def __init__(self, seed: int, sizes: int, fill: float, weights: tuple[int, int]) -> None:
        self.random = np.random.default_rng(seed)
        capacity = self.random.integers(1, sizes, (NODES, 2), endpoint=True) * np.array([16000.0, 64 * GI])
        self.used = np.floor(capacity * self.random.uniform(0, fill, (NODES, 2)))
        self.assumed = self.used + self.random.integers(0, 2, NODES)[:, None]
        self.changes: list[Ints] = []
        least, balance = weights
        self.spread = Spread(capacity, self.assumed, self.used, np.zeros((NODES, 2)), self.changes, least, 0, balance)

    def score_of_next(self) -> SpreadOfClass:
        asked = self.random.integers(0, 4000), self.random.integers(0, 16 * 1024) * GI / 1024
        assumed = (float(asked[0] or 100), float(asked[1] or 200 * GI / 1024))
        return SpreadOfClass(self.spread, assumed, [(0, float(asked[0])), (1, float(asked[1]))], False)

    def place(self, lines: Ints, score: SpreadOfClass, sign: int = 1) -> None:
        for column in (0, 1):
            np.add.at(self.used[:, column], lines, score.balanced[column][1] * sign)
            np.add.at(self.assumed[:, column], lines, score.assumed[column] * sign)
        self.changes.append(lines)

    def some_lines(self) -> Ints:
        return self.random.integers(0, NODES, self.random.integers(1, 4))


def scan(score: SpreadOfClass, open_: Flags | None) -> int:
    values: Floats = score(None, 0)
    return int(np.where(open_, values, -np.inf).argmax() if open_ is not None else values.argmax())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.sampled_from([1, 1, 4]),
    fill=st.sampled_from([0.0, 0.002, 0.5, 1.0]),
    weights=st.sampled_from([(1, 1), (1, 0), (0, 1), (3, 2), (-1, 1), (2, -3)]),
    closed=st.sampled_from([0.0, 0.3, 0.99]),
)
def test_blocks_find_the_node_that_a_scan_finds(
    seed: int, sizes: int, fill: float, weights: tuple[int, int], closed: float
) -> None:
    cluster = Cluster(seed, sizes, fill, weights)
    open_ = cluster.random.uniform(size=NODES) >= closed if closed else None
    before = None
    for _ in range(20):
        score = cluster.score_of_next()
        expected = scan(score, open_)
        found = best_line(score, lambda lines: None if open_ is None else open_[lines])
        assert found in (None, expected)
        cluster.place(np.array([expected]), score)
        if before is not None:
            cluster.place(*before, sign=-1)
        before = cluster.some_lines(), score
        cluster.place(*before)


@given(seed=st.integers(0, 2**32), sizes=st.sampled_from([1, 4]), fill=st.sampled_from([0.0, 0.9]))
@settings(max_examples=20, deadline=None)
def test_no_node_scores_above_the_bound_of_its_block(seed: int, sizes: int, fill: float) -> None:
    cluster = Cluster(seed, sizes, fill, (1, 1))
    for _ in range(5):
        score = cluster.score_of_next()
        bounds = score.bounds()
        assert bounds is not None
        assert np.all(np.repeat(bounds, SIZE)[:NODES] >= score(None, 0))
        cluster.place(cluster.some_lines(), score)


def test_a_node_that_becomes_the_best_of_all_is_noticed() -> None:
    large, cpu, memory = (8000.0, 32 * GI), (4000.0, GI), (1.0, 16 * GI)
    for weights, sign, came, comes in (
        ((1, 0), -1, large, large),  # the only one with that much room
        ((0, 1), 1, memory, cpu),  # the only one that leans the other way
        ((0, 1), 1, cpu, memory),
    ):
        cluster = Cluster(1, 1, 0.0, weights)
        before, after = (SpreadOfClass(cluster.spread, asked, list(enumerate(asked)), False) for asked in (came, comes))
        cluster.place(np.arange(NODES), SpreadOfClass(cluster.spread, large, list(enumerate(large)), False))
        assert best_line(after, lambda lines: None) == 0
        cluster.place(np.array([SIZE + 7]), before, sign)
        assert best_line(after, lambda lines: None) == SIZE + 7


def test_on_nodes_of_one_kind_blocks_spare_the_scan() -> None:
    cluster = Cluster(1, 1, 0.0, (1, 1))
    for _ in range(200):
        score = cluster.score_of_next()
        found = best_line(score, lambda lines: None)
        assert found is not None
        cluster.place(np.array([found]), score)


def test_where_no_node_is_open_only_the_scan_may_say_so() -> None:
    score = Cluster(1, 1, 0.0, (1, 1)).score_of_next()
    assert best_line(score, lambda lines: np.zeros(len(range(*lines.indices(NODES))), dtype=bool)) is None
