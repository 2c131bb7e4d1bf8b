"""`hekla plan`: the scheduler decides about what the job would bring with it, not about its pods alone."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from hekla.api.kinds import JOB, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from hekla.api.meta import owner_reference, uid_of
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.cli.manifest import Document
from hekla.cli.plan import plan_job, print_plan
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.local.bootstrap import install_crds
from hekla.local.offline import ensure_namespace, offline_cluster
from hekla.scheduler.config import default_config
from hekla.scheduler.trial.miniature import short_config
from tests import make


@pytest.mark.parametrize(("plugins", "nodes"), [({}, ["wide"]), ({"svc": []}, ["narrow", "wide"])])
def test_pods_that_a_service_of_the_job_selects_are_planned_apart(
    plugins: dict[str, list[str]], nodes: list[str]
) -> None:
    async def planned() -> list[str]:
        async with offline_cluster(print) as client:
            for name, cpu in (("narrow", "8"), ("wide", "64")):
                metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
                made = await client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
                await client.update_status(NODE, {**made, "status": {"allocatable": {"cpu": cpu, "pods": "99"}}})
            job = make.new_job("train", make.task("worker", 2, cpu="2"), plugins=plugins)
            answer = await plan_job(client, Document(job, "job.yaml", 1), default_config())
            return sorted(set(answer["placements"].values()))

    assert asyncio.run(planned()) == nodes


def test_who_would_have_to_leave_is_told_with_the_nodes_that_become_free(capsys: pytest.CaptureFixture[str]) -> None:
    config = short_config("enqueue, allocate, preempt", [["priority", "gang", "predicates", "proportion"]])

    async def planned() -> dict[str, Any]:
        async with offline_cluster(print) as client:
            await add_node(client, "n1", cpu="2")
            high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
            await client.create(PRIORITY_CLASS, {**high, "value": 9})
            await add_running_job(client, "low", pods=2, node="n1")
            task = make.task("worker", 1, cpu="1", pod={"priorityClassName": "high"})
            job = make.new_job("urgent", task, priorityClassName="high")
            return await plan_job(client, Document(job, "job.yaml", 1), config)

    answer = asyncio.run(planned())
    assert answer["fits"]
    assert answer["placements"] == {"urgent-worker-0": "n1"}
    (victim,) = answer["victims"]
    assert (victim["namespace"], victim["job"], victim["node"], victim["action"]) == ("default", "low", "n1", "preempt")
    print_plan(answer)
    said = capsys.readouterr().out
    assert "urgent would start in queue default once others have made room" in said
    assert victim["pod"] in said


def test_what_stands_in_the_file_beside_the_job_counts_as_there() -> None:
    queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "own"}}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    beside = [Document(one, "job.yaml", 1) for one in ({**queue, "spec": {"capability": {"cpu": "3"}}}, high)]

    async def planned(cpu: str) -> dict[str, Any]:
        async with offline_cluster(print) as client:
            await add_node(client, "n1", cpu="8")
            await ensure_namespace(client, "mine")
            task = make.task("worker", 2, cpu=cpu, pod={"priorityClassName": "high"})
            job = make.new_job("train", task, namespace="mine", queue="own", priorityClassName="high")
            answer = await plan_job(client, Document(job, "job.yaml", 9), default_config(), beside)
            assert await client.find(QUEUE, "own") is None, "nothing is written"
            return answer

    assert asyncio.run(planned("1"))["placements"] == {"train-worker-0": "n1", "train-worker-1": "n1"}
    too_large = asyncio.run(planned("2"))
    assert not too_large["fits"]
    assert too_large["decision"]["reason"] == "QueueOverQuota"


def test_a_job_that_is_there_already_is_planned_in_its_own_place(capsys: pytest.CaptureFixture[str]) -> None:
    async def planned(name: str) -> dict[str, Any]:
        async with offline_cluster(print) as client:
            await add_node(client, "n1", cpu="2")
            await add_running_job(client, "train", pods=2, node="n1")
            job = make.new_job(name, make.task("worker", 2, cpu="1"))
            return await plan_job(client, Document(job, "job.yaml", 1), default_config())

    another = asyncio.run(planned("another"))
    assert (another["fits"], another["replaces"]) == (False, "")
    again = asyncio.run(planned("train"))
    assert again["fits"]
    assert again["replaces"]
    print_plan(again)
    assert capsys.readouterr().out.startswith(
        "train is there already: this is how it would be once that one is deleted."
    )


def test_a_plan_that_fits_says_what_the_queue_has_left_then() -> None:
    async def planned() -> dict[str, Any]:
        async with offline_cluster(print) as client:
            await add_node(client, "n1", cpu="8")
            job = make.new_job("train", make.task("worker", 2, cpu="2"))
            return await plan_job(client, Document(job, "job.yaml", 1), default_config())

    (queue,) = asyncio.run(planned())["queues"]
    assert queue["name"] == "default"
    (cpu,) = (part for part in queue["resources"] if part["name"] == "cpu")
    assert (cpu["asked"], cpu["held"], cpu["left"]) == ("4", "4", "4")
    assert "letIn" not in cpu, "it would hold what it was let in for"


def test_a_queue_that_is_not_there_is_told_where_no_webhook_refuses_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    async def planned() -> dict[str, Any]:
        clock = SystemClock()
        app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(0))
        await app.start()
        async with Client(InProcessTransport(app)) as client:
            await install_crds(client)
            job = make.new_job("train", make.task("worker", 2), queue="nowhere", minAvailable=2)
            return await plan_job(client, Document(job, "job.yaml", 1), default_config())

    answer = asyncio.run(planned())
    assert not answer["fits"]
    print_plan(answer)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "train would wait: QueueUnusable",
        "  queue nowhere does not exist: make it, or name another in a new job",
    ]


async def add_node(client: Client, name: str, cpu: str) -> None:
    made = await client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    await client.update_status(NODE, {**made, "status": {"allocatable": {"cpu": cpu, "pods": "99"}}})


async def add_running_job(client: Client, name: str, *, pods: int, node: str) -> None:
    """One that needs a single pod of its many to go on, as its controller would have made it."""
    job = await client.create(JOB, make.new_job(name, make.task("worker", pods, cpu="1"), minAvailable=1))
    of_job = {"namespace": "default", "ownerReferences": [owner_reference(job, JOB)]}
    group = f"{name}-{uid_of(job)}"
    spec = {"minMember": 1, "queue": "default"}
    await client.create(
        POD_GROUP,
        {
            "apiVersion": POD_GROUP.api_version,
            "kind": POD_GROUP.kind,
            "metadata": {"name": group, **of_job},
            "spec": spec,
            "status": {"phase": "Running"},
        },
    )
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    for index in range(pods):
        metadata = {
            "name": f"{name}-worker-{index}",
            "annotations": {"scheduling.k8s.io/group-name": group},
            **of_job,
        }
        running = {"nodeName": node, "schedulerName": "volcano", "containers": [container]}
        pod = await client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": running})
        await client.update_status(POD, {**pod, "status": {"phase": "Running"}})
