"""Queues share the cluster by weight."""

from __future__ import annotations

from typing import Any

from hekla.api.reasons import Reason
from tests.scheduler.plugins.opened import Opened

NODE = {"name": "n1", "cpu": 12, "memory": "64Gi", "pods": 100}


def opened(queues: list[dict[str, Any]], groups: list[dict[str, Any]]) -> Opened:
    return Opened(["proportion"], {"nodes": [NODE], "queues": queues, "groups": groups})


def test_a_queue_has_room_up_to_what_it_deserves() -> None:
    queues = [{"name": "q1", "weight": 1}, {"name": "q2", "weight": 3}]
    groups = [{"name": f"g{n}", "queue": f"q{n}", "cpu": 1, "pods": 12} for n in (1, 2)]
    stage = opened(queues, groups)
    for name, room in (("g1", 3), ("g2", 9)):
        state = stage.state(name)
        found, unfit = stage.tiers.queue_room(state, int(state.group.shape[0]), 12)
        assert found == room
        assert unfit is not None
        assert unfit.reason is Reason.QUEUE_OVER_QUOTA


def test_a_closed_queue_has_no_room_and_lets_nobody_in() -> None:
    stage = opened(
        [{"name": "q1", "state": "Closed"}], [{"name": "a", "queue": "q1", "cpu": 1, "pods": 1, "needs": {"cpu": 1}}]
    )
    state = stage.state("a")
    room, unfit = stage.tiers.queue_room(state, int(state.group.shape[0]), 1)
    assert room == 0
    assert unfit is not None
    assert unfit.reason is Reason.QUEUE_NOT_OPEN
    assert stage.tiers.group_enqueueable(state) == [unfit]


def test_the_capability_bounds_who_may_enter() -> None:
    stage = opened([{"name": "q1", "capability": {"cpu": 4}}], [{"name": "a", "queue": "q1", "needs": {"cpu": 5}}])
    objections = stage.tiers.group_enqueueable(stage.state("a"))
    assert objections is not None
    assert objections[0].message == "queue resource quota insufficient: insufficient cpu"
    assert objections[0].words == "queue q1: cpu: 5 asked, 4 allowed in all"


def test_the_guarantee_of_another_queue_is_out_of_reach() -> None:
    queues = [{"name": "q1"}, {"name": "q2", "guarantee": {"cpu": 8}}]
    stage = opened(queues, [{"name": "a", "queue": "q1", "needs": {"cpu": 5}}])
    assert stage.tiers.group_enqueueable(stage.state("a")) is not None


def test_the_more_important_queue_comes_first_then_the_one_with_less() -> None:
    queues = [{"name": "q1"}, {"name": "q2"}, {"name": "q3", "priority": 5}]
    groups = [
        {"name": "g1", "queue": "q1", "cpu": 1, "pods": [{"node": "n1"}, {}]},
        {"name": "g2", "queue": "q2", "cpu": 1, "pods": 2},
        {"name": "g3", "queue": "q3", "cpu": 1, "pods": [{"node": "n1"}, {}]},
    ]
    stage = opened(queues, groups)
    order = sorted((state.queue for state in stage.session.groups), key=stage.tiers.queue_key)
    assert [queue.name for queue in order] == ["q3", "q2", "q1"]
