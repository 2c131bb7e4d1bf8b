from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import EVENT, JOB, POD, POD_GROUP, Obj
from hekla.api.meta import uid_of
from hekla.cli.why import explain_job, print_why
from hekla.local.offline import offline_cluster
from hekla.scheduler.config import default_config
from tests import make


@pytest.mark.parametrize(
    ("propagation", "first"),
    [("Background", []), ("Foreground", ["  what belongs to it goes first, its pods among it"])],
)
def test_a_job_that_is_being_deleted_waits_for_who_holds_it_and_for_nothing_else(
    propagation: str,
    first: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def explained() -> dict[str, Any]:
        async with offline_cluster(print) as client:
            job = make.new_job("train", make.task("worker", 2), minAvailable=2)
            job["metadata"]["finalizers"] = ["example.com/books", "example.com/hold"]
            await client.create(JOB, job)
            await client.delete(JOB, "train", "default", propagation=propagation)
            return await explain_job(client, "default", "train", default_config())

    print_why(asyncio.run(explained()))
    assert capsys.readouterr().out.splitlines() == [
        "train is being deleted",
        *first,
        "  until these finalizers are taken off it: example.com/books, example.com/hold",
    ]


def test_a_gang_short_of_pods_is_told_with_what_keeps_them_from_being_made(capsys: pytest.CaptureFixture[str]) -> None:
    async def explained() -> dict[str, Any]:
        async with offline_cluster(print) as client:
            job = await client.create(JOB, make.new_job("train", make.task("worker", 2), minAvailable=2))
            name = f"train-{uid_of(job)}"
            made = await client.create(POD_GROUP, as_written(make.pod_group(name, 2, minTaskMember={"worker": 2})))
            await client.update_status(POD_GROUP, {**made, "status": {"phase": "Inqueue"}})
            pod = make.job_pod(job, "worker", 0, "Pending")
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
            pod["spec"]["schedulerName"] = "volcano"
            await client.create(POD, as_written(pod))
            for reason, message in (("FailedCreate", "exceeded quota: small"), ("PodGroupPending", "it waits")):
                await client.create(EVENT, warning_about(job, reason, message))
            return await explain_job(client, "default", "train", default_config())

    print_why(asyncio.run(explained()))
    assert capsys.readouterr().out.splitlines() == [
        "train is Pending",
        "  GangNotComplete: 1 of 2 pods of task worker are there: exceeded quota: small",
    ]


def as_written(obj: Obj) -> Obj:
    given = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "uid")}
    return {**obj, "metadata": given}


def warning_about(job: Obj, reason: str, message: str) -> Obj:
    return {
        "metadata": {"name": f"train.{reason.lower()}", "namespace": "default"},
        "involvedObject": {"apiVersion": JOB.api_version, "kind": "Job", "name": "train", "uid": uid_of(job)},
        "type": "Warning",
        "reason": reason,
        "message": message,
    }
