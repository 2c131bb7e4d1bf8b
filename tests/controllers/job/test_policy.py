from __future__ import annotations

import pytest

from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.policy import Answer, Occurrence, answer
from tests import make

RESTART_POD_LATER = make.policy("PodPending", "RestartPod", timeout="5m")


def a_job(*policies: dict[str, object], task: list[dict[str, object]] | None = None, version: int = 0) -> Job:
    obj = make.job("demo", make.task("worker", 2, policies=task or []), policies=list(policies))
    obj["status"] = {"version": version}
    return read_job(obj)


def happened(event: str, version: int = 0, exit_code: int = 0, task: str = "worker") -> Occurrence:
    return Occurrence(event, version, task=task, pod="demo-worker-0", exit_code=exit_code)


CASES = [
    ("no policy converges", a_job(), happened("PodFailed"), "SyncJob"),
    ("the event matches", a_job(make.policy("PodFailed", "RestartJob")), happened("PodFailed"), "RestartJob"),
    ("another event does not", a_job(make.policy("PodEvicted", "RestartJob")), happened("PodFailed"), "SyncJob"),
    ("any event matches", a_job(make.policy("*", "AbortJob")), happened("TaskCompleted"), "AbortJob"),
    (
        "one of several",
        a_job({"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}),
        happened("PodFailed"),
        "AbortJob",
    ),
    (
        "the exit code matches",
        a_job({"exitCode": 3, "action": "AbortJob"}),
        happened("PodFailed", exit_code=3),
        "AbortJob",
    ),
    (
        "another exit code does not",
        a_job({"exitCode": 3, "action": "AbortJob"}),
        happened("PodFailed", exit_code=4),
        "SyncJob",
    ),
    (
        "the first that matches wins",
        a_job({"exitCode": 3, "action": "AbortJob"}, make.policy("PodFailed", "RestartJob")),
        happened("PodFailed", exit_code=3),
        "AbortJob",
    ),
    (
        "the task's policy shadows the job's",
        a_job(make.policy("PodFailed", "RestartJob"), task=[make.policy("PodFailed", "RestartTask")]),
        happened("PodFailed"),
        "RestartTask",
    ),
    (
        "no match in the task falls through to the job",
        a_job(make.policy("PodFailed", "RestartJob"), task=[make.policy("PodEvicted", "RestartTask")]),
        happened("PodFailed"),
        "RestartJob",
    ),
    (
        "pending without a timeout is no event",
        a_job(make.policy("PodPending", "RestartPod")),
        happened("PodPending"),
        "SyncJob",
    ),
    (
        "any event without a timeout leaves pending alone",
        a_job(make.policy("*", "AbortJob")),
        happened("PodPending"),
        "SyncJob",
    ),
    ("internal events converge", a_job(make.policy("*", "AbortJob")), happened("OutOfSync"), "SyncJob"),
    (
        "a pod of an earlier incarnation converges",
        a_job(make.policy("PodFailed", "RestartJob"), version=2),
        happened("PodFailed", version=1),
        "SyncJob",
    ),
    (
        "an event of the whole job skips the tasks",
        a_job(make.policy("Unknown", "AbortJob"), task=[make.policy("Unknown", "RestartTask")]),
        happened("Unknown", task=""),
        "AbortJob",
    ),
]


@pytest.mark.parametrize(("name", "job", "occurrence", "action"), CASES, ids=[case[0] for case in CASES])
def test_answers(name: str, job: Job, occurrence: Occurrence, action: str) -> None:
    assert answer(job, occurrence).action == action


def test_a_timeout_delays_the_action() -> None:
    assert answer(a_job(RESTART_POD_LATER), happened("PodPending")) == Answer("RestartPod", 300.0, "5m0s")
