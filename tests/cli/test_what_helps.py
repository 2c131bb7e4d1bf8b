"""How long is looked for remedies, and for whom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hekla.api.kinds import NODE, Obj
from hekla.cli.manifest import Document
from hekla.cli.plan import plan_job
from hekla.cli.what_helps import print_remedies, rehearse_timed, remedies_for_job
from hekla.client.rest import Client
from hekla.controllers.job.model import read_job
from hekla.controllers.job.podgroup import build_pod_group
from hekla.local.offline import offline_cluster
from hekla.scheduler.config import default_config
from tests import make

LOTS = {"requests": {"cpu": "lots"}}


class Slow:
    """A clock by which everything takes as long as this."""

    def __init__(self, seconds: float) -> None:
        self._readings: Iterator[float] = iter((0.0, seconds))

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return next(self._readings)


@pytest.mark.parametrize(("seconds", "more"), [(0.125, 16), (0.9, 2), (30.0, 2), (0.0, 2000)])
def test_as_much_is_tried_as_two_seconds_allow_and_two_things_at_least(seconds: float, more: int) -> None:
    assert rehearse_timed(default_config(), [], Slow(seconds)).affordable == more


async def add_node(client: Client, cpu: str) -> None:
    made = await client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    await client.update_status(NODE, {**made, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "99"}}})


def test_a_job_without_pods_is_tried_with_those_it_would_have() -> None:
    job = make.job("train", make.task("worker", 6, cpu="1"), plugins={"svc": []}, meta={"uid": "u"})

    async def tried() -> list[str]:
        async with offline_cluster(print) as client:
            await add_node(client, "4")
            nodes = [{**node, "apiVersion": "v1", "kind": "Node"} for node in (await client.list(NODE)).items]
            group = {**build_pod_group(read_job(job), {})}
            group["metadata"] |= {"uid": "g", "creationTimestamp": make.CREATED}
            queues: list[Obj] = [make.queue()]
            rehearsed = rehearse_timed(default_config(), [*nodes, *queues, group])
            return [remedy["sentence"] for remedy in await remedies_for_job(client, job, group, rehearsed)]

    assert "it would start now with minAvailable: 4 (it asks for 6)" in asyncio.run(tried())


def test_a_job_whose_plugin_is_not_there_has_no_remedies() -> None:
    job = make.job("train", make.task("worker", 6, cpu="1"), plugins={"nobody-has-it": []}, meta={"uid": "u"})

    async def tried() -> list[dict[str, Any]]:
        async with offline_cluster(print) as client:
            group = make.pod_group("train-u", 6, minResources={"cpu": "6"})
            node = make.node("n1", cpu="4")
            rehearsed = rehearse_timed(default_config(), [node, make.queue(), group])
            return await remedies_for_job(client, job, group, rehearsed)

    assert asyncio.run(tried()) == []


def test_a_plan_for_a_job_that_would_wait_says_what_would_help_and_others_say_nothing() -> None:
    async def planned(cpu: str) -> list[str]:
        async with offline_cluster(print) as client:
            await add_node(client, "4")
            job = make.new_job("train", make.task("worker", 2, cpu=cpu))
            answer = await plan_job(client, Document(job, "job.yaml", 1), default_config())
            return [remedy["sentence"] for remedy in answer["remedies"]]

    assert asyncio.run(planned("3")) == [
        "not even an empty cluster would do",
        "it would start now with minAvailable: 1 (it asks for 2)",
    ]
    assert asyncio.run(planned("2")) == []


def waiting_beside(*others: Obj) -> list[dict[str, Any]]:
    """Remedies for a pod of a group that asks for more than the node has."""
    group, pod = make.pod_group("g", minResources={"cpu": "6"}), make.pod("p")
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    pod["spec"] |= {"schedulerName": "volcano", "containers": [make.container(resources=make.resources("6"))]}
    cluster = [make.queue(), make.node("n1", cpu="4"), group, pod, *others]

    async def tried() -> list[dict[str, Any]]:
        async with offline_cluster(print) as client:
            return await remedies_for_job(client, make.job(), group, rehearse_timed(default_config(), cluster))

    return asyncio.run(tried())


def test_an_object_that_is_not_understood_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "hekla.scheduler"):
        assert waiting_beside({**make.queue("odd"), "spec": {"weight": "much"}})
    assert len(caplog.records) == 1


def test_amounts_that_nobody_understands_leave_a_job_without_help_and_not_without_an_answer() -> None:
    odd = make.pod("odd", "Running", spec={"nodeName": "n1", "containers": [make.container(resources=LOTS)]})
    assert waiting_beside(odd) == []


def test_five_lines_are_printed_at_most_and_no_heading_over_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_remedies([])
    assert capsys.readouterr().out == ""
    print_remedies([{"sentence": f"way {number}"} for number in range(9)])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "WHAT WOULD HELP (each was tried on a copy of the cluster)",
        *(f"  way {number}" for number in range(5)),
    ]
