"""The state machine, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.batch import JobAction as A
from hekla.api.batch import JobPhase as P
from hekla.controllers.job.lifecycle import Counts, Operation, next_phase, operation
from hekla.controllers.job.model import Job, read_job
from tests import make

S, ALL, SOFT, TARGET = Operation.SYNC, Operation.KILL_ALL, Operation.KILL_UNFINISHED, Operation.KILL_TARGET
TARGETS = (A.RESTART_TASK, A.RESTART_POD, A.RESTART_PARTITION)


def a_job(phase: str, *, retry_count: int = 0, replicas: int = 2, **spec: Any) -> Job:
    obj = make.job("demo", make.task("worker", replicas), **spec)
    obj["status"] = {"state": {"phase": phase}, "retryCount": retry_count}
    return read_job(obj)


Row = tuple[Operation, str, int]
"""What is done, the phase it leads to when nothing is left to wait for, and the retries it counts."""

_FROM_ALIVE: dict[str, Row] = {
    A.RESTART_JOB: (ALL, P.RESTARTING, 1),
    **dict.fromkeys(TARGETS, (TARGET, P.RESTARTING, 1)),
    A.ABORT_JOB: (SOFT, P.ABORTING, 0),
    A.COMPLETE_JOB: (SOFT, P.COMPLETING, 0),
    A.TERMINATE_JOB: (SOFT, P.TERMINATING, 0),
}
OTHERWISE = "any other action"
TABLE: dict[str, dict[str, Row]] = {
    "": {**_FROM_ALIVE, OTHERWISE: (S, P.RUNNING, 0)},
    P.PENDING: {**_FROM_ALIVE, OTHERWISE: (S, P.RUNNING, 0)},
    "Strange": {**_FROM_ALIVE, OTHERWISE: (S, P.RUNNING, 0)},
    P.RUNNING: {**_FROM_ALIVE, OTHERWISE: (S, P.RUNNING, 0)},
    P.RESTARTING: {
        A.SYNC_JOB: (S, P.PENDING, 0),
        **dict.fromkeys(TARGETS, (TARGET, P.PENDING, 0)),
        OTHERWISE: (ALL, P.PENDING, 0),
    },
    P.ABORTING: {A.RESUME_JOB: (SOFT, P.RESTARTING, 1), OTHERWISE: (SOFT, P.ABORTED, 0)},
    P.ABORTED: {A.RESUME_JOB: (SOFT, P.RESTARTING, 1), OTHERWISE: (SOFT, P.ABORTED, 0)},
    P.COMPLETING: {OTHERWISE: (SOFT, P.COMPLETED, 0)},
    P.TERMINATING: {OTHERWISE: (SOFT, P.TERMINATED, 0)},
    P.COMPLETED: {OTHERWISE: (SOFT, P.COMPLETED, 0)},
    P.FAILED: {OTHERWISE: (SOFT, P.FAILED, 0)},
    P.TERMINATED: {OTHERWISE: (SOFT, P.TERMINATED, 0)},
}
ACTIONS = (
    A.SYNC_JOB, A.ENQUEUE_JOB, A.ABORT_JOB, A.RESUME_JOB, A.RESTART_JOB, *TARGETS, A.TERMINATE_JOB, A.COMPLETE_JOB,
    "Nonsense", "",
)  # fmt: skip


def test_the_table_has_every_phase() -> None:
    assert set(P) <= set(TABLE)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("phase", TABLE)
def test_every_row_of_the_table(phase: str, action: str) -> None:
    what, after, retries = TABLE[phase].get(action) or TABLE[phase][OTHERWISE]
    assert operation(phase, action) is what
    quiet = Counts(running=2) if what is S else Counts()
    transition = next_phase(a_job(phase), action, quiet)
    assert (transition.phase, transition.retries) == (after, retries)


@pytest.mark.parametrize("phase", [P.ABORTING, P.COMPLETING, P.TERMINATING])
@pytest.mark.parametrize("left", [Counts(terminating=1), Counts(pending=1), Counts(running=1)])
def test_an_ending_job_ends_only_when_nothing_is_left(phase: str, left: Counts) -> None:
    assert next_phase(a_job(phase), A.SYNC_JOB, left).phase == phase


def test_a_pending_job_runs_once_its_gang_has_started() -> None:
    job = a_job(P.PENDING, minAvailable=2)
    assert next_phase(job, A.SYNC_JOB, Counts(running=1, pending=1)).phase == P.PENDING
    assert next_phase(job, A.SYNC_JOB, Counts(running=1, failed=1)).phase == P.RUNNING


def test_a_restarting_job_waits_until_enough_old_pods_are_gone() -> None:
    job = a_job(P.RESTARTING)
    assert next_phase(job, A.SYNC_JOB, Counts(terminating=1)).phase == P.RESTARTING
    assert next_phase(job, A.SYNC_JOB, Counts(terminating=1), min_available=1).phase == P.PENDING


def test_the_restart_that_uses_up_the_retries_fails_the_job() -> None:
    assert next_phase(a_job(P.RESTARTING, retry_count=3), A.SYNC_JOB, Counts()).phase == P.FAILED


def by_task(**succeeded: int) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    return tuple((name, (("Succeeded", count),)) for name, count in succeeded.items())


RUNNING = [
    ("all succeeded and one was not needed", 2, {"minAvailable": 1}, Counts(succeeded=2), P.COMPLETED),
    ("all succeeded", 2, {}, Counts(succeeded=2, tasks=by_task(worker=2)), P.COMPLETED),
    ("one of two failed and both were needed", 2, {}, Counts(succeeded=1, failed=1, tasks=by_task(worker=1)), P.FAILED),
    ("one waits that the gang needs", 2, {"minAvailable": 2}, Counts(pending=1, running=1), P.PENDING),
    ("one waits that the gang does not need", 3, {"minAvailable": 2}, Counts(pending=1, running=2), P.RUNNING),
    ("scaled to nothing", 0, {}, Counts(), P.RUNNING),
    ("enough have succeeded", 3, {"minSuccess": 1}, Counts(running=2, succeeded=1), P.COMPLETED),
    ("too few have succeeded", 3, {"minSuccess": 3, "minAvailable": 1}, Counts(succeeded=2, failed=1), P.FAILED),
    ("a small gang is content with few", 3, {"minAvailable": 1}, Counts(succeeded=1, failed=2), P.COMPLETED),
]


@pytest.mark.parametrize(("name", "replicas", "spec", "counts", "after"), RUNNING, ids=[row[0] for row in RUNNING])
def test_what_a_running_job_becomes(name: str, replicas: int, spec: dict[str, Any], counts: Counts, after: str) -> None:
    assert next_phase(a_job(P.RUNNING, replicas=replicas, **spec), A.SYNC_JOB, counts).phase == after


def test_a_task_without_a_minimum_or_without_pods_is_not_asked_for_its_own() -> None:
    obj = make.job("demo", make.task("a", 2), make.task("b", 1, minAvailable=1), minAvailable=2)
    del obj["spec"]["tasks"][0]["minAvailable"]
    obj["status"] = {"state": {"phase": P.RUNNING}}
    counts = Counts(succeeded=2, failed=1, tasks=(("a", (("Failed", 1), ("Succeeded", 1))), ("b", (("Succeeded", 1),))))
    assert next_phase(read_job(obj), A.SYNC_JOB, counts).phase == P.COMPLETED


def test_each_task_must_reach_its_own_minimum() -> None:
    obj = make.job("demo", make.task("a", 2, minAvailable=1), make.task("b", 1))
    obj["status"] = {"state": {"phase": P.RUNNING}}
    counts = Counts(succeeded=2, failed=1, tasks=(("a", (("Succeeded", 2),)), ("b", (("Failed", 1),))))
    assert next_phase(read_job(obj), A.SYNC_JOB, counts).phase == P.FAILED
