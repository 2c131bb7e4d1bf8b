from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from hekla.client.rest import Client
from hekla.client.transport import Answer
from hekla.errors import Disconnected
from hekla.local.bootstrap import install_crds
from hekla.node.cleanup import end_pod
from hekla.node.kept_logs import jobs_with_logs
from hekla.node.log_keeper import LogKeeper
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, NODE_NAME, rig
from tests.node.test_kept_logs import ended_pod, in_the_way
from tests.transports import Disturbed, nothing


@contextlib.asynccontextmanager
async def keeping(
    data_dir: Path, before: Callable[[str], Awaitable[Answer | None]] = nothing
) -> AsyncIterator[LogKeeper]:
    async with rig(ACCOUNTS[-1]) as node, asyncio.TaskGroup() as tasks:
        await install_crds(node.client)
        client = Client(Disturbed(node.client.transport, before))
        keeper = LogKeeper(client, data_dir, lambda node: node == NODE_NAME, random.Random(1))
        running = tasks.create_task(keeper.run())
        yield keeper
        running.cancel()


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
        async with keeping(tmp_path, refuse_once):
            await soon(lambda: not jobs_with_logs(tmp_path), seconds=20)

    asyncio.run(main())
    assert len(asked) == 2


def test_what_could_not_be_read_is_read_again_and_stops_no_other(tmp_path: Path) -> None:
    for job in ("j-0", "j-1", "j-2"):
        end_pod(ended_pod(tmp_path, f"of-{job}", owner={"uid": job}))

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            with in_the_way(tmp_path / "kept" / "j-1" / "pods" / "of-j-1" / "pod.json"):
                await stack.enter_async_context(keeping(tmp_path))
                await soon(lambda: jobs_with_logs(tmp_path) == ["j-1"], seconds=20)
            await soon(lambda: not jobs_with_logs(tmp_path), seconds=20)

    asyncio.run(main())


def test_what_nodes_of_another_cluster_kept_stays(tmp_path: Path) -> None:
    """A folder may serve a node of somebody's cluster today and a cluster of its own tomorrow."""
    end_pod(ended_pod(tmp_path, "u-0", owner={"uid": "theirs"}, node="laptop"))

    async def main() -> None:
        async with keeping(tmp_path) as keeper:
            # By the second time the keeper has looked at all that was there the first time.
            for uid in ("u-1", "u-2"):
                end_pod(ended_pod(tmp_path, uid, owner={"uid": "ours"}))
                keeper.look()
                await soon(lambda: "ours" not in jobs_with_logs(tmp_path), seconds=20)

    asyncio.run(main())
    assert jobs_with_logs(tmp_path) == ["theirs"]
