"""Groups at rest are left out of cycles, and every decision is the one made with all groups looked at."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.api.meta import uid_of
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, default_config, parse_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.plan import Plan
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object

WITH_EVICTIONS = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
QUEUES = ("default", "other")
GROUPS = range(5)
CLASSES = {"low": 1, "high": 9}


def made(obj: Obj, uid: str, revision: int) -> Obj:
    obj["metadata"] |= {"uid": uid, "resourceVersion": str(revision)}
    return obj


def empty_cache() -> Cache:
    cache = Cache()
    for name in QUEUES:
        cache.put_queue(made(queue_object({"name": name, "reclaimable": True}), name, 1))
    for name, value in CLASSES.items():
        cache.put_priority_class({"metadata": {"name": name}, "value": value})
    for name in ("n1", "n2"):
        cache.put_node(made(node_object({"name": name, "cpu": 4}), name, 1))
    return cache


def group(number: int, revision: int, phase: str, minimum: int, class_: str) -> Obj:
    given = {"name": f"g{number}", "queue": QUEUES[number % 2], "phase": phase, "min": minimum, "class": class_}
    return made(group_object({**given, "needs": {"cpu": minimum}}), f"g{number}", revision)


def pod(number: int, at: int, revision: int, phase: str, node: str, class_: str) -> Obj:
    given: dict[str, Any] = {"name": f"g{number}-t-{at}", "cpu": 1, "class": class_, "phase": phase}
    if phase != "Pending":
        given["node"] = node
    return made(pod_object(given, f"g{number}"), f"p{number}-{at}", revision)


def told(plan: Plan) -> list[Any]:
    """What a plan does; of groups, what those that are not at rest come to."""
    outcomes = [
        (outcome.group.name, outcome.phase, outcome.condition, outcome.announcements, outcome.decision)
        for outcome in plan.groups
        if not outcome.at_rest
    ]
    evicted = [(eviction.pod.uid, eviction.reason) for eviction in plan.evictions]
    return [plan.bindings(), evicted, plan.queues, outcomes]


steps = st.lists(
    st.tuples(
        st.sampled_from(["group", "group", "pod", "pod", "pod", "no pod", "no group", "nothing"]),
        st.sampled_from(GROUPS),
        st.integers(0, 3),
        st.sampled_from(["Pending", "Running", "Succeeded"]),
        st.sampled_from(["Pending", "Inqueue", "Running"]),
        st.sampled_from(["n1", "n2"]),
        st.sampled_from(list(CLASSES)),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(steps, st.sampled_from([default_config(), parse_config(WITH_EVICTIONS, source="test")]))
def test_decisions_are_those_made_with_every_group_looked_at(changes: list[Any], config: Config) -> None:
    cache = empty_cache()
    groups: dict[int, Obj] = {}
    pods: dict[tuple[int, int], Obj] = {}
    for revision, (what, number, at, phase, group_phase, node, class_) in enumerate(changes, start=2):
        if what == "group":
            groups[number] = group(number, revision, group_phase, at, class_)
            cache.put_group(groups[number])
        elif what == "pod":
            pods[number, at] = pod(number, at, revision, phase, node, class_)
            cache.put_pod(pods[number, at])
        elif what == "no pod" and (number, at) in pods:
            cache.remove_pod(uid_of(pods.pop((number, at))))
        elif what == "no group" and number in groups:
            cache.remove_group(groups.pop(number))
        plan = run_cycle(cache.snapshot(), config)
        fresh = empty_cache()
        for obj in groups.values():
            fresh.put_group(obj)
        for obj in pods.values():
            fresh.put_pod(obj)
        assert told(plan) == told(run_cycle(fresh.snapshot(), config))
        cache.settle(plan)


def test_a_group_that_runs_is_not_looked_at_again_before_it_changes() -> None:
    cache = empty_cache()
    cache.put_group(group(0, 1, "Running", 1, "low"))
    cache.put_pod(pod(0, 0, 1, "Running", "n1", "low"))
    plan = run_cycle(cache.snapshot(), default_config())
    assert [outcome.group.name for outcome in plan.groups] == ["test/g0"]
    cache.settle(plan)
    plan = run_cycle(cache.snapshot(), default_config())
    assert plan.groups == ()
    assert {queue.name: queue.allocated["cpu"] for queue in plan.queues} == {"default": 1000.0, "other": 0.0}
    cache.put_pod(pod(0, 0, 2, "Succeeded", "n1", "low"))
    assert [outcome.phase for outcome in run_cycle(cache.snapshot(), default_config()).groups] == ["Completed"]
