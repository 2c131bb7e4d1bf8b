"""PodGroup statuses: what is written, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.meta import Key
from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.patches import group_status
from hekla.scheduler.plan import GroupCondition, GroupOutcome
from hekla.scheduler.reading import read_group

NOW = "2030-01-01T00:00:00Z"


def status_after(status: dict[str, Any], phase: PodGroupPhase, *, running: int = 0, now: str = NOW, **more: Any) -> Any:
    row = read_group({"metadata": {"name": "a", "namespace": "n"}, "spec": {}, "status": status}, "default")
    assert row.key == Key("n", "a")
    outcome = GroupOutcome(
        group=None,  # type: ignore[arg-type]
        phase=phase,
        running=running,
        succeeded=0,
        failed=0,
        condition=more.get("condition"),
        announcements=(),
        pod_conditions=(),
        missing=0,
        settling=False,
        filling=False,
    )
    return group_status(row, outcome, "cycle-2", now)


def entry(type_: str, message: str = "", cycle: str = "cycle-1", since: str = NOW) -> dict[str, str]:
    found = {"type": type_, "status": "True", "transitionID": cycle, "lastTransitionTime": since, "reason": "r"}
    return {**found, "message": message} if message else found


def test_a_status_that_says_it_already_is_left_alone() -> None:
    status = {"phase": "Running", "running": 2, "conditions": [entry("Scheduled")]}
    condition = GroupCondition("Scheduled", "r", "")
    assert status_after(status, PodGroupPhase.RUNNING, running=2, condition=condition) is None


def test_only_what_differs_is_written() -> None:
    status = {"phase": "Running", "running": 2}
    assert status_after(status, PodGroupPhase.RUNNING, running=3) == {"running": 3}


def test_a_count_that_falls_to_nothing_is_taken_out() -> None:
    assert status_after({"phase": "Running", "running": 2}, PodGroupPhase.COMPLETED) == {
        "phase": "Completed",
        "running": None,
    }


def test_a_condition_takes_the_place_of_the_earlier_one_of_its_type_and_leaves_the_others() -> None:
    status = {"phase": "Inqueue", "conditions": [entry("Unschedulable", "old"), entry("Scheduled")]}
    condition = GroupCondition("Unschedulable", "r", "new")
    patch = status_after(status, PodGroupPhase.INQUEUE, condition=condition)
    assert patch == {"conditions": [entry("Unschedulable", "new", "cycle-2"), entry("Scheduled")]}


def test_a_condition_is_written_again_when_something_else_has_been_said_since() -> None:
    earlier = "2029-12-31T23:00:00Z"
    status = {
        "phase": "Running",
        "running": 2,
        "conditions": [entry("Scheduled", since=earlier), entry("Unschedulable")],
    }
    condition = GroupCondition("Scheduled", "r", "")
    patch = status_after(status, PodGroupPhase.RUNNING, running=2, condition=condition)
    assert patch == {"conditions": [entry("Scheduled", cycle="cycle-2"), entry("Unschedulable")]}


@pytest.mark.parametrize(("phase", "said"), [("Running", "Scheduled"), ("Inqueue", "Unschedulable")])
def test_of_two_conditions_of_one_second_the_one_holds_that_the_phase_bears_out(phase: str, said: str) -> None:
    status = {"phase": phase, "conditions": [entry("Scheduled"), entry("Unschedulable")]}
    assert status_after(status, PodGroupPhase(phase), condition=GroupCondition(said, "r", "")) is None


def test_what_the_phase_does_not_bear_out_is_said_once_in_a_second() -> None:
    """A gang that its pods without requests make ready stays Inqueue until they have their nodes."""
    status = {"phase": "Inqueue", "conditions": [entry("Unschedulable"), entry("Scheduled")]}
    condition = GroupCondition("Scheduled", "r", "")
    assert status_after(status, PodGroupPhase.INQUEUE, condition=condition) is None
    later = "2030-01-01T00:00:01Z"
    patch = status_after(status, PodGroupPhase.INQUEUE, condition=condition, now=later)
    assert patch == {"conditions": [entry("Unschedulable"), entry("Scheduled", cycle="cycle-2", since=later)]}
