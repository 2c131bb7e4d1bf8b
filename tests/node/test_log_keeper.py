from __future__ import annotations

import asyncio
import random
from pathlib import Path

from hekla.client.rest import Client
from hekla.client.transport import Answer
from hekla.errors import Disconnected
from hekla.local.bootstrap import install_crds
from hekla.node.cleanup import end_pod
from hekla.node.kept_logs import jobs_with_logs
from hekla.node.log_keeper import LogKeeper
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, rig
from tests.node.test_kept_logs import ended_pod
from tests.transports import Disturbed


def test_a_server_that_was_away_when_a_job_had_gone_is_asked_again(tmp_path: Path) -> None:
    end_pod(ended_pod(tmp_path, "u-0"))
    asked: list[str] = []

    async def refuse_once(request: str) -> Answer | None:
        if request.endswith("/jobs/j"):
            asked.append(request)
            if len(asked) == 1:
                raise Disconnected("the server is away")
        return None

    async def main() -> None:
        async with rig(ACCOUNTS[-1]) as node, asyncio.TaskGroup() as tasks:
            await install_crds(node.client)
            client = Client(Disturbed(node.client.transport, refuse_once))
            keeping = tasks.create_task(LogKeeper(client, tmp_path, random.Random(1)).run())
            await soon(lambda: not jobs_with_logs(tmp_path), seconds=20)
            keeping.cancel()

    asyncio.run(main())
    assert len(asked) == 2
