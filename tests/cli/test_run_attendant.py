"""When a run stops waiting for its job."""

from __future__ import annotations

import asyncio

from hekla.cli.run_attendant import others_run
from hekla.client.rest import Client
from hekla.client.transport import HttpTransport
from hekla.local.offline import offline_cluster
from tests.ports import free_port


def test_who_cannot_ask_takes_it_that_others_run_and_asks_again_later() -> None:
    async def ask() -> bool:
        async with Client(HttpTransport(f"http://127.0.0.1:{free_port()}")) as client:
            return await others_run(client)

    assert asyncio.run(ask())


def test_on_an_empty_cluster_nobody_runs() -> None:
    async def ask() -> bool:
        async with offline_cluster(print) as client:
            return await others_run(client)

    assert not asyncio.run(ask())
