from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import JOB
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
