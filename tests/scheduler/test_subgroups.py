"""Which pods of a group belong together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.scheduler.snapshot import Group
from hekla.scheduler.subgroups import subgroups_of
from hekla.scheduler.trial.miniature import Miniature
from hekla.scheduler.trial.objects import group_object, pod_object
from tests.scheduler.test_cases import PLAIN

BY_TASK = {"labelSelector": {"matchLabels": {"task": "a"}}, "matchLabelKeys": ["part"], "name": "a", "subGroupSize": 2}


def group_of(policies: list[dict[str, Any]], *labels: dict[str, str]) -> Group:
    world = Miniature()
    world.add({"queues": [{"name": "default"}]})
    group = group_object({"name": "g"})
    group["spec"]["subGroupPolicy"] = policies
    world.put(group)
    for number, found in enumerate(labels):
        world.put(pod_object({"name": f"g-t-{number}", "cpu": 1, "labels": found}, "g"))
    return world.cache().snapshot().groups[0]


def names(group: Group) -> list[str]:
    subgroups = subgroups_of(group)
    return [subgroups.each[position].name for position in subgroups.of.tolist()]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"task": "a", "part": "7"}, "a-7"),
        ({"task": "b", "part": "7"}, ""),
        ({"task": "a", "part": ""}, ""),
        ({"task": "a"}, ""),
    ],
)
def test_a_pod_is_in_the_subgroup_of_its_label_values(labels: dict[str, str], name: str) -> None:
    assert names(group_of([BY_TASK], labels)) == [name]


def test_the_first_policy_that_selects_a_pod_has_it() -> None:
    anyone = {"labelSelector": {}, "matchLabelKeys": ["part", "zone"], "name": "any"}
    labels = [{"task": "a", "part": "1", "zone": "z"}, {"part": "1", "zone": "z"}]
    assert names(group_of([BY_TASK, anyone], *labels)) == ["a-1", "any-1-z"]
    assert names(group_of([anyone, BY_TASK], *labels)) == ["any-1-z", "any-1-z"]


def test_a_policy_without_keys_makes_no_subgroups() -> None:
    labels = {"task": "a", "part": "1"}
    assert names(group_of([{**BY_TASK, "matchLabelKeys": []}, BY_TASK], labels)) == [""]


@pytest.mark.parametrize("said", [{}, {"labelSelector": None}, {"labelSelector": {}}])
def test_a_policy_without_a_selector_selects_all_pods_that_have_its_labels(said: dict[str, Any]) -> None:
    policy = {"matchLabelKeys": ["part"], "name": "a", "subGroupSize": 2, **said}
    assert names(group_of([policy], {"task": "a", "part": "1"}, {"part": "2"}, {"task": "a"})) == ["a-1", "a-2", ""]


def test_pods_of_no_subgroup_are_welcome_one_by_one() -> None:
    (subgroup,) = subgroups_of(group_of([BY_TASK], {}, {})).each
    assert subgroup.size == 1


def test_a_hard_topology_of_a_policy_is_named() -> None:
    row = group_of([{**BY_TASK, "networkTopology": {"mode": "hard"}}]).row
    assert row.unsupported == ("spec.subGroupPolicy[a].networkTopology",)
    assert group_of([{**BY_TASK, "networkTopology": {"mode": "soft"}}]).row.unsupported == ()


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    requests=st.lists(st.integers(1, 3), min_size=16, max_size=16),
    nodes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    minimum=st.integers(0, 8),
    partitions=st.integers(0, 3),
    size=st.integers(1, 3),
)
def test_partitions_are_bound_whole_or_not_at_all(
    sizes: list[int], requests: list[int], nodes: list[int], minimum: int, partitions: int, size: int
) -> None:
    pods = [{"partition": part, "cpu": requests.pop()} for part, count in enumerate(sizes) for _ in range(count)]
    world = Miniature(PLAIN)
    world.add({"queues": [{"name": "default"}]})
    world.add({"nodes": [{"name": f"n{number}", "cpu": cpu} for number, cpu in enumerate(nodes)]})
    world.add(
        {"groups": [{"name": "g", "min": minimum, "partitions": {"size": size, "min": partitions}, "pods": pods}]}
    )
    world.settle()
    bound = [pod["partition"] for number, pod in enumerate(pods) if world.node_of(f"g-t-{number}")]
    whole = Counter(bound)
    assert all(count >= size for count in whole.values())
    assert not bound or (len(bound) >= minimum and len(whole) >= partitions)
