"""The loop of every builtin survives whatever a look at one object comes to."""

from __future__ import annotations

import asyncio

from hekla.client.workqueue import WorkQueue
from hekla.local.builtins.working import work
from hekla.log import get_logger
from tests.integration.virtual_loop import run_virtually


def test_an_object_that_cannot_be_looked_at_keeps_nobody_from_the_others() -> None:
    looked: list[str] = []

    async def look(key: str) -> None:
        looked.append(key)
        if key == "odd" and looked.count("odd") < 3:
            raise ValueError("nobody thought of this")

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("odd", "fine"):
            queue.add(key)
        working = asyncio.create_task(work(queue, look, get_logger("test")))
        await asyncio.sleep(60)
        working.cancel()
        await asyncio.wait([working])
        queue.close()

    run_virtually(main())
    assert looked.count("odd") == 3
    assert looked.count("fine") == 1
