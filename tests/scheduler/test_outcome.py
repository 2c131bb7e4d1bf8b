"""The phase a group comes to, and the words for it."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.kinds import JOB, POD, Kind
from hekla.scheduler.plan import GroupOutcome
from hekla.scheduler.trial.miniature import Miniature, short_config


def outcome_of(
    pods: list[dict[str, Any]],
    minimum: int,
    *,
    leaving: tuple[int, ...] = (),
    phase: str = "Running",
    actions: str = "allocate, backfill",
    owner: Kind = JOB,
) -> GroupOutcome:
    return world_of(pods, minimum, leaving=leaving, phase=phase, actions=actions, owner=owner).cycle().groups[0]


def world_of(
    pods: list[dict[str, Any]],
    minimum: int,
    *,
    leaving: tuple[int, ...] = (),
    phase: str = "Running",
    actions: str = "allocate, backfill",
    owner: Kind = JOB,
) -> Miniature:
    world = Miniature(short_config(actions, [["gang", "predicates"]]))
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 4}]})
    world.add({"groups": [{"name": "a", "min": minimum, "cpu": 1, "phase": phase, "pods": pods}]})
    owned_by = {"apiVersion": owner.api_version, "kind": owner.kind, "name": "a", "uid": "owner", "controller": True}
    world.objects["PodGroup", "a"]["metadata"]["ownerReferences"] = [owned_by]
    for number in leaving:
        world.objects["Pod", f"a-t-{number}"]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return world


ON, DONE, HUGE = {"node": "n1"}, {"node": "n1", "phase": "Succeeded"}, {"cpu": 99}


@pytest.mark.parametrize(
    ("pods", "leaving", "minimum", "phase"),
    [
        ([ON], (0,), 1, "Running"),
        ([ON, ON], (1,), 2, "Running"),
        ([DONE, DONE], (), 2, "Completed"),
        ([ON], (0,), 2, "Pending"),
        ([{}, HUGE], (0,), 2, "Pending"),
        ([ON, HUGE], (), 2, "Unknown"),
        ([], (), 0, "Completed"),
    ],
)
def test_the_phase_of_a_group(pods: list[dict[str, Any]], leaving: tuple[int, ...], minimum: int, phase: str) -> None:
    assert outcome_of(pods, minimum, leaving=leaving).phase == phase


@pytest.mark.parametrize(
    ("pods", "leaving", "minimum", "told"),
    [
        ([ON, ON], (1,), 2, False),
        ([ON, ON, HUGE], (1,), 2, True),
        ([ON, {**ON, "cpu": 3}, {"cpu": 3}], (1,), 2, True),
        ([{}], (0,), 1, True),
        ([ON, ON], (1,), 3, True),
        ([ON, ON, HUGE], (1,), 3, True),
    ],
)
def test_a_gang_short_only_of_leaving_pods_is_not_called_unschedulable(
    pods: list[dict[str, Any]], leaving: tuple[int, ...], minimum: int, told: bool
) -> None:
    condition = outcome_of(pods, minimum, leaving=leaving).condition
    assert (condition is not None and condition.type == "Unschedulable") is told


def test_a_pod_promised_room_is_told_what_it_waits_for() -> None:
    outcome = outcome_of([{**ON, "cpu": 4}, {"cpu": 4}], 1, leaving=(0,))
    ((pod, condition),) = outcome.pod_conditions
    assert condition.message == (
        f"Pod test/{pod.name} can possibly be assigned to n1, once resource is released and minAvailable is satisfied"
    )


LET_IN = ("0/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable", True)
PLACED = ("0/2 tasks in gang unschedulable: pod group is ready, 2 Binding, 2 minAvailable", True)
LACKS_PODS = ("0/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable", False)
READY = ("pod group is ready", False)


@pytest.mark.parametrize(
    ("phase", "pods", "told"),
    [
        ("Pending", [], [LET_IN, LACKS_PODS]),
        ("Inqueue", [], [LACKS_PODS]),
        ("Inqueue", [{"cpu": 1}] * 2, [PLACED]),
        ("Inqueue", [ON] * 2, [READY]),
        # More pods than it needs are no step on the way.
        ("Running", [ON, ON, {"cpu": 1}], [READY]),
    ],
)
def test_a_gang_on_its_way_is_told_of_where_it_has_got_on(
    phase: str, pods: list[dict[str, Any]], told: list[tuple[str, bool]]
) -> None:
    announcements = outcome_of(pods, 2, phase=phase, actions="enqueue, allocate").announcements
    assert [(each.message, each.passing) for each in announcements] == told


def test_that_a_gang_has_only_pods_of_the_run_before_is_told_when_it_is_let_in() -> None:
    def told(leaving: tuple[int, ...], phase: str) -> list[bool]:
        outcome = outcome_of([ON, ON], 3, leaving=leaving, phase=phase, actions="enqueue, allocate")
        words = f"{len(leaving)} Releasing" if len(leaving) == 2 else "1 Releasing, 1 Running"
        text = f"0/2 tasks in gang unschedulable: pod group is not ready, {words}, 3 minAvailable"
        assert {each.message for each in outcome.announcements} == {text}
        return [each.passing for each in outcome.announcements]

    assert told((0, 1), "Pending") == [True, False]
    assert told((0, 1), "Inqueue") == [False]
    assert told((1,), "Inqueue") == [False]


THEIRS = {"cpu": 1, "scheduler": "default-scheduler"}
BOTH_PLACED = ("0/2 tasks in gang unschedulable: pod group is ready, 1 minAvailable, 2 Binding", True)


@pytest.mark.parametrize(
    ("pods", "minimum", "told"),
    [
        ([{"cpu": 1}, {"cpu": 1}], 1, [BOTH_PLACED]),
        # As if the other scheduler had placed its own already.
        ([{"cpu": 1}, THEIRS], 1, []),
        ([{"cpu": 1}, THEIRS], 2, [PLACED]),
        ([THEIRS, THEIRS], 2, []),
    ],
)
def test_pods_that_ask_for_a_scheduler_we_stand_in_for_are_no_step_of_their_gang(
    pods: list[dict[str, Any]], minimum: int, told: list[tuple[str, bool]]
) -> None:
    world = world_of(pods, minimum, phase="Inqueue")
    world.scheduler_names = ("volcano", "default-scheduler")
    (outcome,) = world.cycle().groups
    assert [(each.message, each.passing) for each in outcome.announcements] == told


def test_that_a_group_made_for_a_pod_has_none_yet_is_no_step_on_its_way() -> None:
    announcements = outcome_of([], 1, phase="Pending", actions="enqueue, allocate", owner=POD).announcements
    assert [each.passing for each in announcements] == [False]
