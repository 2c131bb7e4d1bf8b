"""Queues below queues."""

from __future__ import annotations

from typing import Any

from hekla.scheduler.queuetree import QueueTree
from hekla.scheduler.session import Session
from hekla.scheduler.trial.miniature import Miniature


def session_of(*queues: dict[str, Any]) -> Session:
    world = Miniature()
    world.add({"nodes": [{"name": "n1", "cpu": 10}], "queues": [{"name": "root"}, *queues]})
    return Session(world.cache().snapshot())


def tree_of(*queues: dict[str, Any]) -> QueueTree:
    return QueueTree(session_of(*queues).queues)


def test_a_queue_that_names_no_parent_hangs_on_the_root() -> None:
    tree = tree_of({"name": "a"}, {"name": "b", "parent": "a"})
    assert tree.way_up("b") == ["b", "a", "root"]
    assert tree.way_down("b") == ["a", "b"]
    assert not tree.is_leaf("a")
    assert sorted(tree.all_below("a")) == ["a", "b"]


def test_queues_in_a_ring_take_no_groups_and_nobody_walks_for_ever() -> None:
    tree = tree_of({"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}, {"name": "c", "parent": "b"})
    assert tree.trouble("c") == "queue c has no way up to the root queue: c < b < a < b (a ring)"
    assert tree.trouble("a") == "queue a has no way up to the root queue: a < b < a (a ring)"


def test_a_queue_whose_parent_does_not_exist_names_it() -> None:
    tree = tree_of({"name": "a", "parent": "b"}, {"name": "b", "parent": "nowhere"})
    assert tree.trouble("a") == "queue a has no way up to the root queue: a < b < nowhere (nowhere does not exist)"


def test_how_near_two_queues_are_is_what_they_have_above_them_in_common() -> None:
    tree = tree_of({"name": "a"}, {"name": "b", "parent": "a"}, {"name": "c", "parent": "a"}, {"name": "d"})
    assert tree.common_depth("b", "c") == 2
    assert tree.common_depth("b", "d") == 1


def test_what_is_guaranteed_to_a_sibling_is_out_of_reach() -> None:
    session = session_of(
        {"name": "a", "capability": {"cpu": 8}},
        {"name": "b", "parent": "a", "guarantee": {"cpu": 3}},
        {"name": "c", "parent": "a"},
    )
    ceilings = QueueTree(session.queues).ceilings(session)
    assert ceilings["c"][0] == 5000
    assert ceilings["b"][0] == 8000
