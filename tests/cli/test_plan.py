"""`hekla plan`: the scheduler decides about what the job would bring with it, not about its pods alone."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import NODE
from hekla.cli.manifest import Document
from hekla.cli.plan import plan_job
from hekla.local.offline import offline_cluster
from hekla.scheduler.config import default_config
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
