"""A node agent as a program of its own: SOCKET DATA_DIR ISOLATION GPUS. Says `ready`, runs until it is killed."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from hekla.client.kubeconfig import Access, connect
from hekla.clock import SystemClock
from hekla.log import configure_logging
from hekla.node.agent import NodeSettings, run


async def main(socket: str, data_dir: str, isolation: str, gpus: str = "0") -> None:
    client = connect(Access(server=f"unix://{socket}"))
    size = {"cpu": "4", "memory": "8Gi", "gpus": int(gpus)}
    settings = NodeSettings("n1", Path(data_dir), isolation=isolation, **size)  # type: ignore[arg-type]
    await run(
        client, settings, clock=SystemClock(), rng=random.SystemRandom(), ready=lambda: print("ready", flush=True)
    )


configure_logging("warning")
asyncio.run(main(*sys.argv[1:]))
