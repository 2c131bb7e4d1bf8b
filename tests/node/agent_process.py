"""A node agent as a program of its own: SOCKET DATA_DIR SETTINGS (JSON). Says `ready`, runs until it is killed.

Where `HEKLA_TEST_CLOCK` names a file, that says by how much its clock is wrong, and for how long it has slept.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from hekla.client.kubeconfig import Access, connect
from hekla.clock import SystemClock
from hekla.log import configure_logging
from hekla.node.agent import NodeSettings, run


class ToldClock(SystemClock):
    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> datetime:
        ahead, slept = self._told()
        return super().now() + timedelta(seconds=ahead + slept)

    def monotonic(self) -> float:
        return super().monotonic() + self._told()[1]

    def _told(self) -> tuple[float, float]:
        ahead, slept = map(float, self._file.read_text().split())
        return ahead, slept


async def main(socket: str, data_dir: str, settings: str) -> None:
    client = connect(Access(server=f"unix://{socket}"))
    given = {"name": "n1", "data_dir": data_dir, "cpu": "4", "memory": "8Gi", **msgspec.json.decode(settings)}
    own = msgspec.convert(given, NodeSettings, dec_hook=lambda kind, value: kind(value))
    file = os.environ.get("HEKLA_TEST_CLOCK")
    clock = ToldClock(Path(file)) if file else SystemClock()
    await run(client, own, clock=clock, rng=random.SystemRandom(), ready=lambda: print("ready", flush=True))


configure_logging("warning")
asyncio.run(main(*sys.argv[1:]))
