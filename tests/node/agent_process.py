"""A node agent as a program of its own: SOCKET DATA_DIR SETTINGS (JSON). Says `ready`, runs until it is killed."""

from __future__ import annotations

import asyncio
import random
import sys

import msgspec

from hekla.client.kubeconfig import Access, connect
from hekla.clock import SystemClock
from hekla.log import configure_logging
from hekla.node.agent import NodeSettings, run


async def main(socket: str, data_dir: str, settings: str) -> None:
    client = connect(Access(server=f"unix://{socket}"))
    given = {"name": "n1", "data_dir": data_dir, "cpu": "4", "memory": "8Gi", **msgspec.json.decode(settings)}
    own = msgspec.convert(given, NodeSettings, dec_hook=lambda kind, value: kind(value))
    await run(client, own, clock=SystemClock(), rng=random.SystemRandom(), ready=lambda: print("ready", flush=True))


configure_logging("warning")
asyncio.run(main(*sys.argv[1:]))
