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


def test_of_a_group_everything_but_counters_is_news() -> None:
    old = {"metadata": {"name": "g"}, "spec": {"minMember": 1}, "status": {"phase": "Running", "running": 1}}
    assert not group_moved(Update(old, {**old, "status": {"phase": "Running", "running": 2}}))
    assert group_moved(Update(old, {**old, "status": {"phase": "Inqueue", "running": 1}}))
    assert group_moved(Update(old, {**old, "spec": {"minMember": 2}}))
    assert group_moved(Update(old, {**old, "status": {**old["status"], "conditions": [{"type": "Unschedulable"}]}}))


def test_what_the_scheduler_says_of_a_group_is_told_from_what_we_write() -> None:
    old = make.pod_group("g", 1)
    ours = {**old, "spec": {**old["spec"], "minMember": 2}}
    assert not group_judged(Update(None, old))
    assert not group_judged(Update(old, ours))
    assert not group_judged(Update(old, {**ours, "status": {"phase": "Pending", "running": 1}}))
    assert group_judged(Update(old, {**ours, "status": {"phase": "Inqueue"}}))
    assert group_judged(Update(old, {**ours, "status": {"conditions": [{"type": "Unschedulable"}]}}))
