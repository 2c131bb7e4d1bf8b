from __future__ import annotations

from datetime import timedelta
from typing import Any

from hekla.api.meta import parse_timestamp, timestamp
from hekla.cli.job_table import job_table, lacks_group
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
    job: dict[str, Any],
    *others: dict[str, Any],
    queues: list[str] | None = None,
    complaint: str = "",
    wide: bool = False,
) -> dict[str, object]:
    groups = [one for one in others if one["kind"] == "PodGroup"]
    pods = [one for one in others if one["kind"] == "Pod"]
    complaints = {"uid-demo": complaint} if complaint else {}
    headers, (row,) = job_table([job], groups, pods, queues, complaints, NOW, namespaces=True, wide=wide)
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


def test_waiting_and_running_are_told_apart() -> None:
    assert times(fresh("Pending")) == ("90s", "-")
    assert times(fresh("Running"), 30) == ("30s", "60s")
    assert times(fresh("Failed", ended=50), 20) == ("20s", "30s")
    assert times(fresh("Failed", ended=50)) == ("50s", "-")


def test_without_its_pods_a_job_knows_since_when_it_ran() -> None:
    job = fresh("Completed", ended=50)
    job["status"]["conditions"] = [{"status": "Running", "lastTransitionTime": after(20)}]
    assert times(job) == ("20s", "30s")


def test_how_long_a_restarted_job_waited_nobody_knows() -> None:
    assert times(a_job("Running"), 30) == ("-", "60s")


def fresh(phase: str, *, ended: int = 0) -> dict[str, Any]:
    job = a_job(phase)
    job["status"]["retryCount"] = 0
    job["status"]["state"]["lastTransitionTime"] = after(ended)
    return job


def times(job: dict[str, Any], *started: int) -> tuple[object, object]:
    pods = [owned(make.job_pod(job, index=index, phase="Running")) for index in range(len(started))]
    for pod, moment in zip(pods, started, strict=True):
        pod["status"]["containerStatuses"] = [{"name": "main", "state": {"running": {"startedAt": after(moment)}}}]
    found = cells(job, *pods, wide=True)
    return found["WAITED"], found["RAN"]


def after(seconds: int) -> str:
    return timestamp(parse_timestamp(make.CREATED) + timedelta(seconds=seconds))


def test_a_job_for_which_no_gang_could_be_asked_waits_for_what_could_not_be_done() -> None:
    job, group = a_job("Pending"), owned(make.pod_group("demo-uid-demo"))
    assert cells(job, complaint="WaitingForVolume")["REASON"] == "WaitingForVolume"
    assert cells(job, group, complaint="WaitingForVolume")["REASON"] == "-", "it is over: there is a gang"
    assert cells(a_job("Aborted"), complaint="WaitingForVolume")["REASON"] == "-"
    assert [lacks_group([each], [group]) for each in (job, a_job("Aborted"))] == [False, False]
    assert [lacks_group([each], []) for each in (job, a_job("Aborted"))] == [True, False]
