"""Groups that share their columns are what they would be by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.groupbuilding import GroupBuilder, build_group
from hekla.scheduler.reading import read_group
from hekla.scheduler.rows import Condition, Pod, PodGroup, PodStatus, QueueGate
from hekla.scheduler.snapshot import Group
from hekla.scheduler.tables import Tables
from hekla.scheduler.trial.miniature import Miniature, short_config
from hekla.scheduler.trial.objects import group_object
from tests.scheduler.test_cache import made, pod, small_cache


def some_pods() -> list[Pod]:
    """Three shapes, one of them without any request."""
    cache = small_cache(pods=0)
    for number, cpu in enumerate((1, 2, 0)):
        cache.put_pod(pod(number, cpu=cpu))
    return [found for number in range(3) if (found := cache.pod(f"p{number}")) is not None]


PODS = some_pods()
TABLES = Tables.build([], PODS, [])
# What the columns of a group may follow from.
OF_PODS: dict[str, Sequence[object]] = {
    "shape": [each.shape for each in PODS],
    "status": list(PodStatus),
    "role": ["worker", "ps"],
    "priority": [0, 1],
    "gated": [False, True],
    "queue_gate": list(QueueGate),
    "claims": [(), ("data",)],
    "condition": [None, Condition("Unschedulable", ""), Condition("Unschedulable", "", "n1")],
}
OF_GROUPS: dict[str, Sequence[object]] = {
    "phase": ["Pending", "Inqueue", "Running", "Unknown"],
    "minMember": [0, 1, 2],
    "minResources": [None, {"cpu": "1"}, {"cpu": "2"}],
}


def row_of(features: dict[str, object]) -> PodGroup:
    spec = {name: value for name, value in features.items() if name != "phase"}
    return read_group(made({**group_object({"name": "a", "phase": features["phase"]}), "spec": spec}, "g"), "default")


def features(known: dict[str, Sequence[object]]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in known.items()})


def assert_same(one: Group, other: Group) -> None:
    for name in one.__struct_fields__:
        np.testing.assert_equal(getattr(one, name), getattr(other, name), err_msg=name)


@given(features(OF_PODS), features(OF_GROUPS), st.data())
def test_groups_that_differ_in_one_thing_are_what_they_would_be_alone(
    of_pod: dict[str, object], of_group: dict[str, object], data: st.DataObject
) -> None:
    builder = GroupBuilder(TABLES.shape_lines, TABLES.columns)
    everything = {**OF_PODS, **OF_GROUPS}
    other = data.draw(st.sampled_from(sorted(everything)))
    for value in everything[other]:
        one = replace(PODS[0], **{**of_pod, **({other: value} if other in of_pod else {})})
        row = row_of({**of_group, **({other: value} if other in of_group else {})})
        for members in ([one], [], [one, PODS[1]]):
            alone = build_group(row, 1, members, TABLES.shape_lines, TABLES.requests, TABLES.columns)
            assert_same(builder.build(row, 1, members, TABLES.requests), alone)


def test_nobody_writes_into_what_is_shared() -> None:
    builder = GroupBuilder(TABLES.shape_lines, TABLES.columns)
    row = read_group(made(group_object({"name": "a", "min": 1}), "g"), "default")
    first, second = (builder.build(row, 0, PODS[:1], TABLES.requests) for _ in range(2))
    assert first.status is second.status
    assert first.memo is not second.memo
    with pytest.raises(ValueError, match="read-only"):
        second.status[0] = PodStatus.RUNNING


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "overcommit"])
def test_what_a_group_that_was_let_in_may_still_need_is_kept_for_it_before_it_says_that_it_was(plugin: str) -> None:
    config = short_config("enqueue, allocate", [["gang", "predicates", plugin]])
    world = Miniature(config)
    world.add({"nodes": [{"name": "n1", "cpu": 10}], "queues": [{"name": "default", "capability": {"cpu": 12}}]})
    world.add({"groups": [{"name": "a", "min": 1, "needs": {"cpu": 9}, "cpu": 1, "pods": 1}]})
    world.add({"groups": [{"name": "b", "min": 1, "needs": {"cpu": 5}}]})
    cache = world.cache()
    for _ in range(2):
        plan = run_cycle(cache.snapshot(), config)
        assert [str(outcome.phase) for outcome in plan.groups] == ["Inqueue", "Pending"]
        assert all(cache.assume(placement, cache.generation) for placement in plan.placements)
