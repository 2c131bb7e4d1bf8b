from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from hekla.client.informer import Update
from hekla.controllers.job.news import group_judged, group_moved, job_moved
from tests import make


def a_job() -> dict[str, Any]:
    job = make.job("demo", make.task("worker", 3))
    job["metadata"]["generation"] = 1
    job["status"] = {"state": {"phase": "Running"}, "running": 2, "version": 1, "retryCount": 0}
    return job


def changed(path: str, value: object) -> Update:
    old = a_job()
    new = deepcopy(old)
    *parents, last = path.split(".")
    target = new
    for parent in parents:
        target = target.setdefault(parent, {})
    target[last] = value
    return Update(old, new)


@pytest.mark.parametrize("path", ["status.running", "status.taskStatusCount", "metadata.resourceVersion"])
def test_other_counters_are_no_news(path: str) -> None:
    assert not job_moved(changed(path, "other"))


@pytest.mark.parametrize(
    "path",
    [
        "metadata.generation", "metadata.deletionTimestamp", "metadata.annotations", "metadata.labels",
        "status.state.phase", "status.version", "status.retryCount",
    ],
)  # fmt: skip
def test_what_a_decision_rests_on_is_news(path: str) -> None:
    assert job_moved(changed(path, "other"))


def test_coming_and_going_are_news_and_becoming_pending_is_not() -> None:
    fresh, pending = a_job(), a_job()
    del fresh["status"]
    pending["status"] = {"state": {"phase": "Pending"}}
    assert job_moved(Update(None, fresh))
    assert job_moved(Update(fresh, None))
    assert not job_moved(Update(fresh, pending))


def a_group(phase: str, *conditions: dict[str, str], members: int = 1, running: int = 1) -> dict[str, Any]:
    status = {"phase": phase, "running": running, "conditions": list(conditions)}
    return {"metadata": {"name": "g"}, "spec": {"minMember": members}, "status": status}


def condition(type_: str, message: str = "", at: str = "2030-01-01T00:00:00Z") -> dict[str, str]:
    return {"type": type_, "status": "True", "message": message, "lastTransitionTime": at}


def test_that_a_group_runs_now_is_no_news() -> None:
    """The Job has made all pods, and hears from them what becomes of it."""
    let_in = a_group("Inqueue", running=0)
    assert not group_moved(Update(let_in, a_group("Running", condition("Scheduled"))))
    assert not group_moved(Update(a_group("Running"), a_group("Running", running=2)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (a_group(""), a_group("Inqueue")),
        (a_group("Pending"), a_group("Inqueue")),
        (a_group("Running"), a_group("Pending")),
        (a_group("Running"), a_group("Unknown")),
        (a_group("Inqueue"), a_group("Inqueue", members=2)),
        (a_group("Inqueue"), a_group("Inqueue", condition("Unschedulable", "full"))),
        (
            a_group("Inqueue", condition("Unschedulable", "full")),
            a_group("Inqueue", condition("Unschedulable", "fuller")),
        ),
        (
            a_group("Running", condition("Scheduled")),
            a_group("Running", condition("Scheduled"), condition("Unschedulable", at="2031-01-01T00:00:00Z")),
        ),
    ],
)
def test_what_a_job_makes_something_of_is_news_of_its_group(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert group_moved(Update(before, after))
    assert group_moved(Update(after, before))


def test_what_the_scheduler_says_of_a_group_is_told_from_what_we_write() -> None:
    old = make.pod_group("g", 1)
    ours = {**old, "spec": {**old["spec"], "minMember": 2}}
    assert not group_judged(Update(None, old))
    assert not group_judged(Update(old, ours))
    assert not group_judged(Update(old, {**ours, "status": {"phase": "Pending", "running": 1}}))
    assert group_judged(Update(old, {**ours, "status": {"phase": "Inqueue"}}))
    assert group_judged(Update(old, {**ours, "status": {"conditions": [{"type": "Unschedulable"}]}}))
