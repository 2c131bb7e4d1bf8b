"""Room made by eviction, where cases cannot see it: in the cycle that makes it."""

from __future__ import annotations

from hekla.scheduler.trial.miniature import Miniature, short_config

CONFIG = short_config(
    "allocate, preempt", [["conformance", {"name": "gang", "enablePreemptable": False}, "priority", "predicates"]]
)


def test_what_left_for_one_pod_may_leave_room_for_another_that_could_have_moved_nobody() -> None:
    """Pods that ask for nothing make nobody leave who asks for something; a slot that is free they take."""
    world = Miniature(CONFIG)
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 4, "pods": 2}], "classes": {"high": 9}})
    world.add({"groups": [{"name": "low", "min": 0, "cpu": 2, "phase": "Running", "pods": [{"node": "n1"}] * 2}]})
    world.add({"groups": [{"name": "high", "min": 2, "class": "high", "pods": [{}, {"cpu": 3}, {}]}]})
    plan = world.cycle()
    assert [eviction.pod.name for eviction in plan.evictions] == ["low-t-1", "low-t-0"]
    told = {pod.name: condition.message for outcome in plan.groups for pod, condition in outcome.pod_conditions}
    promised = "can possibly be assigned to n1, once resource is released and minAvailable is satisfied"
    assert {name for name, message in told.items() if promised in message} == {"high-t-1", "high-t-2"}
