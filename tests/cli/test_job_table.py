from __future__ import annotations

from datetime import timedelta
from typing import Any

from hekla.api.meta import parse_timestamp
from hekla.cli.job_table import job_table
from tests import make

NOW = parse_timestamp(make.CREATED) + timedelta(seconds=90)


def a_job(phase: str, **meta: Any) -> dict[str, Any]:
    obj = make.job("demo", make.task("worker", 3), meta=meta, queue="research")
    obj["status"] = {"state": {"phase": phase}, "retryCount": 1, "unknown": 2}
    return obj


def owned(obj: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "demo", "uid": "uid-demo"}
    obj["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return obj


def cells(
    job: dict[str, Any], *others: dict[str, Any], queues: list[str] | None = None, wide: bool = False
) -> dict[str, object]:
    groups = [one for one in others if one["kind"] == "PodGroup"]
    pods = [one for one in others if one["kind"] == "Pod"]
    headers, (row,) = job_table([job], groups, pods, queues, NOW, namespaces=True, wide=wide)
    return dict(zip(headers, row, strict=True))


def test_upstreams_columns_count_the_jobs_own_pods() -> None:
    job = a_job("Running")
    pods = [owned(make.job_pod(job, index=index, phase=phase)) for index, phase in enumerate(("Running", "Failed"))]
    stranger = make.job_pod(job, index=2)
    assert cells(job, *pods, stranger) == {
        "NAMESPACE": "default", "NAME": "demo", "PHASE": "Running", "REASON": "-", "REPLICAS": 3, "MIN": 3,
        "PENDING": 0, "RUNNING": 1, "SUCCEEDED": 0, "FAILED": 1, "RETRYCOUNT": 1, "QUEUE": "research", "AGE": "90s",
    }  # fmt: skip


def test_a_job_that_waits_says_why_and_a_finished_one_does_not() -> None:
    group = owned(make.pod_group("demo-uid-demo"))
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "too big"}
    group["status"] = {"phase": "Pending", "conditions": [condition]}
    assert cells(a_job("Pending"), group)["REASON"] == "NotEnoughResources"
    assert cells(a_job("Completed"), group)["REASON"] == "-"


def test_a_job_whose_queue_is_gone_waits_for_that_until_it_has_started() -> None:
    group = owned(make.pod_group("demo-uid-demo"))
    group["metadata"]["annotations"] = {"hekla.dev/waiting-reason": "NotEnoughResources"}
    job = a_job("Pending")
    assert cells(job, group, queues=["default", "research"])["REASON"] == "NotEnoughResources"
    assert cells(job, group, queues=["default"])["REASON"] == "QueueUnusable"
    assert cells(job, group, queues=None)["REASON"] == "NotEnoughResources"
    assert cells(a_job("Aborted"), queues=["default"])["REASON"] == "-"
    assert cells(job, owned(make.job_pod(job, index=0, phase="Running")), queues=[])["REASON"] == "-"


def test_the_wide_table_has_the_rest() -> None:
    found = cells(a_job("Running", labels={"volcano.sh/job-type": "MPI"}), wide=True)
    assert (found["UNKNOWN"], found["JOBTYPE"], found["CREATION"]) == (2, "MPI", make.CREATED[:10])
    assert cells(a_job("Running"), wide=True)["JOBTYPE"] == "Batch"
