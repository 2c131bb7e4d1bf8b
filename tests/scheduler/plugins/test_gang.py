"""All or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.reasons import Reason
from tests.scheduler.plugins.opened import Opened


def gang(**group: Any) -> Opened:
    return Opened(["gang"], {"nodes": [{"name": "n1"}], "groups": [{"name": "a", "cpu": 1, **group}]})


def running(count: int) -> list[dict[str, Any]]:
    return [{"node": "n1"} for _ in range(count)]


@pytest.mark.parametrize(("pods", "minimum", "ready"), [(1, 2, False), (2, 2, True), (3, 2, True), (0, 0, True)])
def test_a_group_is_ready_with_its_minimum(pods: int, minimum: int, ready: bool) -> None:
    opened = gang(min=minimum, pods=running(pods))
    assert opened.tiers.group_ready(opened.state("a")) is ready


def test_pods_that_ask_for_nothing_count_while_they_wait() -> None:
    opened = Opened(["gang"], {"groups": [{"name": "a", "min": 2, "pods": 2}]})
    assert opened.tiers.group_ready(opened.state("a"))


def test_every_role_needs_its_minimum() -> None:
    pods = [{"role": "worker", "node": "n1"}, {"role": "worker", "node": "n1"}, {"role": "master"}]
    opened = gang(min=2, roles={"master": 1, "worker": 1}, pods=pods)
    assert not opened.tiers.group_ready(opened.state("a"))
    master = opened.state("a").group.roles.index("master")
    assert opened.tiers.pods_missing(opened.state("a"), master) == 1


def test_roles_that_ask_for_more_than_the_group_are_advice() -> None:
    opened = gang(min=1, roles={"master": 1, "worker": 1}, pods=[{"role": "worker", "node": "n1"}])
    assert opened.tiers.group_ready(opened.state("a"))


def test_too_few_pods_make_a_group_invalid() -> None:
    opened = gang(min=3, pods=2)
    unfit = opened.tiers.group_valid(opened.state("a"))
    assert unfit is not None
    assert unfit.reason is Reason.GANG_NOT_COMPLETE
    assert unfit.message == "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"
    assert unfit.sentence == "2 of 3 pods are there"


def test_too_few_pods_of_a_role_make_a_group_invalid() -> None:
    opened = gang(min=2, roles={"master": 1}, pods=[{"role": "worker"}, {"role": "worker"}])
    unfit = opened.tiers.group_valid(opened.state("a"))
    assert unfit is not None
    assert unfit.reason is Reason.GANG_NOT_COMPLETE


def test_groups_that_are_not_ready_come_first() -> None:
    groups = [{"name": "done", "min": 1, "pods": [{"node": "n1"}]}, {"name": "young", "min": 1, "cpu": 1, "pods": 1}]
    opened = Opened(["gang"], {"nodes": [{"name": "n1"}], "groups": groups})
    order = sorted(opened.session.groups, key=opened.tiers.group_key)
    assert [state.group.row.key.name for state in order] == ["young", "done"]
