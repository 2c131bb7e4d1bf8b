"""The tree of departments: undone moves leave no trace, and what is asked for in between changes nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.scheduler.fairtree import FairTree
from hekla.scheduler.session import Session
from hekla.scheduler.trial.miniature import Miniature

PATHS = ["", "root/a", "root/a/x", "root/a/y", "root/b"]
WEIGHTS = ["", "1/2", "1/2/3", "1/2/zero", "1/0"]


def session() -> Session:
    world = Miniature()
    world.add({"nodes": [{"name": "n1", "cpu": 8}]})
    for number, (path, weights) in enumerate(zip(PATHS, WEIGHTS)):
        annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
        world.add({"queues": [{"name": f"q{number}", "annotations": annotations}]})
        pods = [{"cpu": 1, "node": "n1"}] * (number % 3) + [{"cpu": 1}] * 2
        named = [{"name": f"g{number}-t-{at}", **pod} for at, pod in enumerate(pods)]
        world.add({"groups": [{"name": f"g{number}", "queue": f"q{number}", "pods": named}]})
    return Session(world.cache().snapshot())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3), st.booleans()), max_size=12))
def test_ranks_follow_from_what_is_held_and_not_from_the_way_there(moves: list[tuple[int, int, bool]]) -> None:
    one = session()
    trees = [FairTree(one.total, one.groups, one.snapshot.requests) for _ in range(2)]
    unit = one.request(0)
    first = [trees[0].rank(state.queue) for state in one.groups]
    for at, count, ask in moves:
        for tree in trees:
            tree.move(one.groups[at], unit * count)
        if ask:
            trees[0].rank(one.groups[at].queue)
    assert [trees[0].rank(state.queue) for state in one.groups] == [trees[1].rank(s.queue) for s in one.groups]
    for at, count, _ in reversed(moves):
        trees[0].move(one.groups[at], unit * -count)
    assert [trees[0].rank(state.queue) for state in one.groups] == first


def test_weights_that_are_none_count_as_one() -> None:
    one = session()
    assert [queue.hierarchy for queue in one.snapshot.queues] == [
        (),
        (("a", 2.0),),
        (("a", 2.0), ("x", 3.0)),
        (("a", 2.0), ("y", 1.0)),
        (("b", 1.0),),
    ]


def test_an_empty_cluster_has_no_shares() -> None:
    tree = FairTree(np.zeros(3), [], np.zeros((0, 3)))
    assert tree.rank(session().snapshot.queues[2]) == (1.0, 0.0, 1.0, 0.0)
