"""What is said of an object that a server refuses, where it takes a look at the cluster to say it."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import QUEUE
from hekla.cli.manifest import BadFile, Document
from hekla.cli.submit import create_document
from hekla.local.offline import offline_cluster, open_queue
from tests import make


@pytest.mark.parametrize(
    ("queue", "remedy"),
    [
        ("reserch", "(did you mean 'research'?)"),
        ("nowhere", "(there are default, research; to make it: hekla queue create nowhere)"),
    ],
)
def test_of_a_queue_that_is_not_there_is_said_which_are(queue: str, remedy: str) -> None:
    async def refused() -> str:
        async with offline_cluster(print) as client:
            await open_queue(client, "root")
            await open_queue(client, "research")
            job = make.new_job("train", make.task("worker", 2), queue=queue, minAvailable=2)
            with pytest.raises(BadFile) as error:
                await create_document(client, Document(job, "job.yaml", 1))
            return str(error.value)

    missing = f'unable to find job queue: queue.scheduling.volcano.sh "{queue}" not found'
    assert asyncio.run(refused()) == f"job.yaml:1: spec.queue: {missing} {remedy}"


def test_of_a_queue_that_is_shut_is_said_how_it_is_opened() -> None:
    async def refused() -> str:
        async with offline_cluster(print) as client:
            queue = await client.get(QUEUE, "default")
            await client.update_status(QUEUE, {**queue, "status": {"state": "Closed"}})
            with pytest.raises(BadFile) as error:
                await create_document(client, Document(make.new_job("train"), "job.yaml", 1))
            return str(error.value)

    assert asyncio.run(refused()).endswith("(to open it: hekla queue operate default --action open)")
