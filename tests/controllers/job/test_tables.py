"""Every event with every action, on the job and on a task, with and without a timeout: by policy, and to the end."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from hekla.api.kinds import JOB, POD, POD_GROUP
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


async def cause(bench: Bench, event: str) -> None:
    if event == "PodFailed":
        await bench.end("demo-worker-0", "Failed", 3)
    elif event == "PodEvicted":
        await bench.client.delete(POD, "demo-worker-0", "default")
    elif event == "TaskCompleted":
        await bench.end("demo-worker-0")
        await bench.end("demo-worker-1")
    elif event == "TaskFailed":
        status = {"phase": "Running", "containerStatuses": [{**make.container_status("Running"), "restartCount": 3}]}
        await bench.client.patch(POD, "demo-worker-0", {"status": status}, "default", subresource="status")
    else:
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        await bench.client.patch(POD_GROUP, group["metadata"]["name"], {"status": {"phase": "Unknown"}}, "default")


ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
CAUSED = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown")


@pytest.mark.parametrize("timeout", TIMEOUTS)
@pytest.mark.parametrize(("event", "level"), [pair for pair in product(CAUSED, LEVELS) if pair != ("Unknown", "task")])
def test_an_event_comes_to_the_end_its_action_names(event: str, level: str, timeout: str) -> None:
    for action in ACTIONS:
        if timeout and action.startswith("Restart") and action != "RestartJob":
            continue
        phases, retries = on_bench(lambda bench, action=action: outcome(bench, event, action, level, timeout))[0]
        # An evicted pod is made again at once, and its running calls a delayed answer off.
        called_off = bool(timeout) and event == "PodEvicted"
        if called_off or action == "ResumeJob":
            assert (set(phases) <= {"Pending", "Running", "Completed"}, retries) == (True, 0), (action, phases)
        elif action in ENDS:
            assert (phases[-2:], retries) == ([ENDS[action][:-2] + "ing", ENDS[action]], 0), (action, phases)
        else:
            assert ("Restarting" in phases, retries) == (True, 1), (action, phases)


async def outcome(bench: Bench, event: str, action: str, level: str, timeout: str) -> tuple[list[str], int]:
    policy = make.policy(event, action, **({"timeout": timeout} if timeout else {}))
    own, of_job = ([policy], []) if level == "task" else ([], [policy])
    worker = make.task(
        "worker", 2, policies=own, partitionPolicy={"totalPartitions": 2, "partitionSize": 1, "minPartitions": 2}
    )
    await bench.create(make.new_job("demo", worker, make.task("other", 1), policies=of_job))
    await bench.until_running(3)
    await cause(bench, event)
    await bench.settle()
    await bench.settle()
    (job,) = await bench.client.find_all(JOB, "default")
    phases = [condition["status"] for condition in job["status"]["conditions"]]
    return phases, job["status"].get("retryCount", 0)
