"""Every event with every action, on the job and on a task, with and without a timeout: by policy, and to the end."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from hekla.api.kinds import JOB, POD, POD_GROUP, Obj
from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.policy import Answer, Occurrence, answer
from tests import make
from tests.controllers.bench import Bench, on_bench

EVENTS = ("PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown")
ACTIONS = (
    "AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob",
    "ResumeJob",
)  # fmt: skip
LEVELS = ("job", "task")
TIMEOUTS = ("", "30s")


def a_job(level: str, policy: dict[str, Any]) -> Job:
    own, of_job = ([policy], []) if level == "task" else ([], [policy])
    return read_job(make.job("demo", make.task("worker", 2, policies=own), policies=of_job))


def happened(event: str, exit_code: int = 0) -> Occurrence:
    """As the controller finds it: an Unknown group is of no task."""
    if event == "Unknown":
        return Occurrence(event, 0)
    return Occurrence(event, 0, task="worker", pod="demo-worker-0", exit_code=exit_code)


@pytest.mark.parametrize("written", ["the event", "*", "a list"])
@pytest.mark.parametrize(("event", "level", "timeout"), list(product(EVENTS, LEVELS, TIMEOUTS)))
def test_a_policy_answers_its_event(event: str, level: str, timeout: str, written: str) -> None:
    for action in ACTIONS:
        policy: dict[str, Any] = {"action": action}
        policy |= {"events": ["JobUpdated", event]} if written == "a list" else {}
        policy |= {"event": event if written == "the event" else "*"} if written != "a list" else {}
        policy |= {"timeout": timeout} if timeout else {}
        nobody_hears = (event == "Unknown" and level == "task") or (event == "PodPending" and not timeout)
        expected = Answer(action, 30.0 if timeout else 0.0, timeout)
        found = answer(a_job(level, policy), happened(event))
        assert found == (Answer("SyncJob") if nobody_hears else expected)


@pytest.mark.parametrize(("other", "level", "timeout"), list(product(EVENTS, LEVELS, TIMEOUTS)))
def test_a_policy_for_one_event_leaves_the_others_alone(other: str, level: str, timeout: str) -> None:
    for event in EVENTS:
        if event != other:
            policy = make.policy(event, "AbortJob", **({"timeout": timeout} if timeout else {}))
            assert answer(a_job(level, policy), happened(other)).action == "SyncJob"


@pytest.mark.parametrize(("action", "level", "timeout"), list(product((*ACTIONS, "Nonsense", ""), LEVELS, TIMEOUTS)))
def test_an_exit_code_is_answered_whatever_the_action(action: str, level: str, timeout: str) -> None:
    policy: dict[str, Any] = {"exitCode": 137, "action": action, **({"timeout": timeout} if timeout else {})}
    job = a_job(level, policy)
    assert answer(job, happened("PodFailed", 137)) == Answer(action, 30.0 if timeout else 0.0, timeout)
    assert answer(job, happened("PodFailed", 1)).action == "SyncJob"
    assert answer(job, happened("PodEvicted")).action == "SyncJob"


ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
CAUSED = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown")
Outcome = tuple[list[str], int]
"""The phases a job went through, in the order of their last occurrence, and its retries."""


@pytest.mark.parametrize("timeout", TIMEOUTS)
@pytest.mark.parametrize(("event", "level"), [pair for pair in product(CAUSED, LEVELS) if pair != ("Unknown", "task")])
def test_an_event_comes_to_the_end_its_action_names(event: str, level: str, timeout: str) -> None:
    # An evicted pod is made again at once, and its running calls a delayed answer off.
    called_off = bool(timeout) and event == "PodEvicted"
    for action, (phases, retries) in on_bench(lambda bench: outcomes(bench, event, level, timeout))[0].items():
        # An Unknown group is of no partition.
        none = action == "RestartPartition" and event == "Unknown"
        if called_off or none or action == "ResumeJob":
            assert (set(phases) <= {"Pending", "Running", "Completed"}, retries) == (True, 0), (action, phases)
        elif action in ENDS:
            assert (phases[-2:], retries) == ([ENDS[action][:-2] + "ing", ENDS[action]], 0), (action, phases)
        else:
            assert ("Restarting" in phases, retries) == (True, 1), (action, phases)


async def outcomes(bench: Bench, event: str, level: str, timeout: str) -> dict[str, Outcome]:
    """One job for every action, all on the same cluster."""
    parts = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 2}
    for action in ACTIONS:
        own, of_job = policies_of(event, action, level, timeout)
        tasks = make.task("worker", 2, policies=own, partitionPolicy=parts), make.task("other", 1)
        await bench.create(make.new_job(action.lower(), *tasks, policies=of_job))
    for action in ACTIONS:
        await bench.until_phase("Running", action.lower())
    await bench.settle()
    for action in ACTIONS:
        await cause(bench, event, action.lower())
    await bench.settle()
    await bench.settle()
    return {action: await outcome(bench, action.lower()) for action in ACTIONS}


async def cause(bench: Bench, event: str, job: str) -> None:
    if event == "PodFailed":
        await bench.end(f"{job}-worker-0", "Failed", 3)
    elif event == "PodEvicted":
        await bench.client.delete(POD, f"{job}-worker-0", "default")
    elif event == "TaskCompleted":
        await bench.end(f"{job}-worker-0")
        await bench.end(f"{job}-worker-1")
    elif event == "TaskFailed":
        status = {"phase": "Running", "containerStatuses": [{**make.container_status("Running"), "restartCount": 3}]}
        await bench.client.patch(POD, f"{job}-worker-0", {"status": status}, "default", subresource="status")
    else:
        uid = (await bench.client.get(JOB, job, "default"))["metadata"]["uid"]
        await bench.client.patch(POD_GROUP, f"{job}-{uid}", {"status": {"phase": "Unknown"}}, "default")


@pytest.mark.parametrize("level", LEVELS)
def test_a_pod_that_waits_too_long_is_answered(level: str) -> None:
    for action, (phases, retries) in on_bench(lambda bench: waited(bench, level))[0].items():
        if action in ("ResumeJob", "RestartPartition"):
            # Nothing to resume, and no partition in this task.
            assert (phases, retries) == (["Pending"], 0)
        elif action in ENDS:
            assert (phases, retries) == (["Pending", ENDS[action][:-2] + "ing", ENDS[action]], 0), action
        else:
            # Every new pod waits as long as the last one did, until no retry is left.
            assert ("Restarting" in phases, retries, phases[-1]) == (True, 3, "Failed"), (action, phases)


async def waited(bench: Bench, level: str) -> dict[str, Outcome]:
    waiting = {"schedulingGates": [{"name": "example.org/wait"}], "containers": [make.container()]}
    for action in ACTIONS:
        own, of_job = policies_of("PodPending", action, level, "30s")
        task = make.task("worker", 1, policies=own, pod=waiting)
        await bench.create(make.new_job(action.lower(), task, policies=of_job))
    for _ in range(4):
        await bench.settle()
    return {action: await outcome(bench, action.lower()) for action in ACTIONS}


def policies_of(event: str, action: str, level: str, timeout: str) -> tuple[list[Obj], list[Obj]]:
    """Those of the task, and those of the job."""
    policy = make.policy(event, action, **({"timeout": timeout} if timeout else {}))
    return ([policy], []) if level == "task" else ([], [policy])


async def outcome(bench: Bench, name: str) -> Outcome:
    status = (await bench.client.get(JOB, name, "default"))["status"]
    return [condition["status"] for condition in status["conditions"]], status.get("retryCount", 0)
