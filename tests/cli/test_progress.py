"""Why a job waits, as lists and views show it."""

from __future__ import annotations

from typing import Any

from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.cli.progress import dependency_reason, waiting_reason
from tests import make

UNSCHEDULABLE = {
    "type": "Unschedulable",
    "status": "True",
    "reason": "NotEnoughResources",
    "message": "2/2 tasks in gang unschedulable: pod group is not ready",
}


def group(annotations: dict[str, str], *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "g", "annotations": annotations}, "status": {"conditions": list(conditions)}}


def test_the_code_is_the_schedulers_and_the_sentence_the_conditions() -> None:
    found = waiting_reason(group({REASON_ANNOTATION: "NoNodeMatches"}, UNSCHEDULABLE), [])
    assert found == ("NoNodeMatches", UNSCHEDULABLE["message"])


def test_a_group_that_may_not_enter_has_its_sentence_beside_the_code() -> None:
    said = {REASON_ANNOTATION: "QueueOverQuota", MESSAGE_ANNOTATION: "queue q1: cpu: 8 asked, 1 left"}
    assert waiting_reason(group(said), []) == ("QueueOverQuota", "queue q1: cpu: 8 asked, 1 left")


def test_a_group_of_another_scheduler_has_its_condition() -> None:
    assert waiting_reason(group({}, UNSCHEDULABLE), []) == ("NotEnoughResources", UNSCHEDULABLE["message"])
    assert waiting_reason(group({}, UNSCHEDULABLE, {"type": "Scheduled", "status": "True"}), []) == ("", "")


def test_without_a_group_nothing_is_known_yet() -> None:
    assert waiting_reason(None, []) == ("", "")


def test_a_task_without_pods_that_depends_on_others_waits_for_them() -> None:
    job = make.job("j", make.task("first"), make.task("second", dependsOn={"name": ["first"]}))
    pod = {"metadata": {"name": "j-first-0", "annotations": {"volcano.sh/task-spec": "first"}}}
    assert dependency_reason(job, [pod]) == ("WaitingForDependency", "task second waits for first")
    other = {"metadata": {"name": "j-second-0", "annotations": {"volcano.sh/task-spec": "second"}}}
    assert dependency_reason(job, [pod, other]) == ("", "")
