"""Why a job waits, as lists and views show it."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.cli.progress import (
    dependency_reason,
    failures,
    predecessor_reason,
    queue_reason,
    task_rows,
    told_reason,
    waiting_reason,
)
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


def test_a_queue_that_is_not_there_has_to_be_made_and_the_default_one_is_made_by_controllers() -> None:
    job = make.job("demo", make.task())
    named, default = ({"spec": {**job["spec"], "queue": name}} for name in ("research", "default"))
    assert queue_reason(named, {"research"}, []) == ("", "")
    assert queue_reason(named, {"default"}, [])[1].startswith("queue research does not exist: make it")
    assert queue_reason(default, (), [])[1] == (
        "queue default does not exist: `hekla controllers` makes it; does nobody run them?"
    )


@pytest.mark.parametrize(
    ("counts", "waits"), [("1 Releasing", False), ("1 Running, 2 Releasing", False), ("1 Pending, 1 Releasing", True)]
)
def test_that_pods_of_the_run_before_are_leaving_is_not_called_a_lack_of_room(counts: str, waits: bool) -> None:
    text = f"3/1 tasks in gang unschedulable: pod group is not ready, {counts}, 3 minAvailable"
    found = waiting_reason(group({}, {**UNSCHEDULABLE, "message": text}), [])
    assert found == (("NotEnoughResources", text) if waits else ("", ""))


def test_without_a_group_nothing_is_known_yet() -> None:
    assert waiting_reason(None, []) == ("", "")


def test_a_task_without_pods_that_depends_on_others_waits_for_them() -> None:
    job = make.job("j", make.task("first"), make.task("second", dependsOn={"name": ["first"]}))
    pod = {"metadata": {"name": "j-first-0", "annotations": {"volcano.sh/task-spec": "first"}}}
    assert dependency_reason(job, [pod]) == ("WaitingForDependency", "task second waits for first")
    other = {"metadata": {"name": "j-second-0", "annotations": {"volcano.sh/task-spec": "second"}}}
    assert dependency_reason(job, [pod, other]) == ("", "")


def pod_of(job: dict[str, Any], name: str, **metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "controller": True}
    return {"metadata": {"name": name, "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}], **metadata}}


def test_a_job_waits_for_the_pods_of_an_earlier_one_of_its_name() -> None:
    job, earlier = (
        {**make.job("j", make.task("t", 2)), "metadata": {"name": "j", "uid": uid}} for uid in ("new", "old")
    )
    going = [pod_of(earlier, name, deletionTimestamp="2026-01-01T00:00:00Z") for name in ("j-t-1", "j-t-0")]
    said = "pods of an earlier job called j are still ending: "
    assert predecessor_reason(job, going) == ("WaitingForPredecessor", f"{said}j-t-0 and 1 more")
    assert predecessor_reason(job, [*going[:1], pod_of(job, "j-t-0")]) == ("WaitingForPredecessor", f"{said}j-t-1")
    running = {**pod_of(job, "j-t-0"), "status": {"phase": "Running"}}
    assert predecessor_reason(job, [*going[:1], running]) == ("", "")
    assert predecessor_reason(job, [pod_of(job, "j-t-0", deletionTimestamp="2026-01-01T00:00:00Z")]) == ("", "")


def test_pods_of_an_earlier_job_that_have_other_names_keep_nobody_waiting() -> None:
    """Its own have been made: what they wait for is something else."""
    job, earlier = ({**make.job("j", make.task("t")), "metadata": {"name": "j", "uid": uid}} for uid in ("new", "old"))
    going = pod_of(earlier, "j-t-7", deletionTimestamp="2026-01-01T00:00:00Z")
    assert predecessor_reason(job, [going, pod_of(job, "j-t-0")]) == ("", "")


def test_a_job_that_is_over_waits_for_nobody() -> None:
    job, earlier = ({**make.job("j", make.task("t")), "metadata": {"name": "j", "uid": uid}} for uid in ("new", "old"))
    over = {**job, "status": {"state": {"phase": "Aborted"}}}
    going = pod_of(earlier, "j-t-0", deletionTimestamp="2026-01-01T00:00:00Z")
    assert predecessor_reason(over, [going]) == ("", "")


def waiting_pod(*conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j-w-0"}, "spec": spec, "status": {"phase": "Pending", "conditions": list(conditions)}}


def test_a_code_without_a_sentence_has_that_of_the_pod() -> None:
    pod = waiting_pod({"type": "PodScheduled", "status": "False", "message": "0/1 nodes are unavailable"})
    said = group({REASON_ANNOTATION: "NoNodeMatches"}, {"type": "Scheduled", "status": "True"})
    assert waiting_reason(said, [pod]) == ("NoNodeMatches", "0/1 nodes are unavailable")
    assert told_reason(*waiting_reason(said, [])) == "NoNodeMatches"


def test_pods_nobody_looks_at_wait_for_the_scheduler_they_name() -> None:
    code, sentence = waiting_reason(group({}), [waiting_pod(schedulerName="other")])
    assert code == "WaitingForScheduler"
    assert "'other'" in sentence
    assert waiting_reason(group({}), [waiting_pod(schedulerName="volcano")]) == ("", "")
    assert waiting_reason(group({}), [waiting_pod({"type": "PodScheduled"}, schedulerName="other")]) == ("", "")


def test_a_container_that_ends_again_and_again_is_told_though_its_pod_runs() -> None:
    crashing = {
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3}},
    }
    pod = {"metadata": {"name": "j-w-0"}, "spec": {}, "status": {"phase": "Running", "containerStatuses": [crashing]}}
    assert waiting_reason(group({}), [pod]) == ("CrashLoopBackOff", "j-w-0: exit code 3, started again 2×")
    crashing["lastState"] = {"terminated": {"exitCode": 128, "message": "no such program"}}
    assert waiting_reason(group({}), [pod])[1] == "j-w-0: exit code 128 (no such program), started again 2×"


def test_a_pod_that_is_told_to_end_runs_until_it_has_ended() -> None:
    job = {"spec": {"tasks": [{"name": "t", "replicas": 1}]}}
    leaving = {
        "metadata": {
            "name": "p",
            "annotations": {"volcano.sh/task-spec": "t"},
            "deletionTimestamp": "2030-01-01T00:00:00Z",
        },
        "status": {"phase": "Running"},
    }
    (row,) = task_rows(job, [leaving])
    assert (row.pending, row.running) == (0, 1)


def ended(name: str, **status: Any) -> dict[str, Any]:
    terminated = {"terminated": {"exitCode": 137, "reason": "Error"}}
    return {
        "metadata": {"name": name},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": terminated}], **status},
    }


def test_a_pod_that_was_failed_from_outside_says_why_and_not_what_became_of_its_containers() -> None:
    evicted = ended("j-t-0", reason="Evicted", message='Usage of EmptyDir volume "shm" exceeds the limit "64Mi". ')
    refused = ended("j-t-1", reason="NotSupported", message="hostNetwork", containerStatuses=[])
    assert failures([evicted, refused, ended("j-t-2")]) == [
        'j-t-0: Evicted: Usage of EmptyDir volume "shm" exceeds the limit "64Mi".',
        "j-t-1: NotSupported: hostNetwork",
        "j-t-2: Error, exit code 137",
    ]
