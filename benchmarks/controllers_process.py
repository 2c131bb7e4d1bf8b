"""The controllers as `hekla controllers` runs them, with their requests counted.

    python -m benchmarks.controllers_process KUBECONFIG

Says `ready`, and answers each line on its input with the counts so far as JSON. With `--profile FILE`, what Python's
profiler saw is written there at the end.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec

from hekla.api.batches import OBJECT_BATCH
from hekla.client.kubeconfig import client_from_files
from hekla.client.transport import Answer, Request, StreamedAnswer, Transport
from hekla.clock import SystemClock
from hekla.controllers import controllers
from hekla.local.supervisor import Ready, run_until_terminated
from hekla.log import configure_logging

_CONFLICT = 409
_BATCHES = OBJECT_BATCH.path()


class CountingTransport:
    """Passes everything on. An item of a batch counts as the write it stands for.

    What is measured is the controllers: a write is counted when somebody asks, not while they work.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._counts: Counter[str] = Counter()
        self._written: list[str] = []

    async def send(self, request: Request) -> Answer:
        answer = await self._inner.send(request)
        if request.path == _BATCHES:
            self._count_batch(request, answer)
        elif request.writes:
            self._written.append(request.path)
            if answer.status == _CONFLICT:
                self._counts["409"] += 1
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedAnswer]:
        self._counts["streams"] += 1
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    def counts(self) -> Counter[str]:
        self._counts["requests"] += len(self._written)
        self._counts.update(_resource(path) for path in self._written)
        self._written.clear()
        return self._counts

    def _count_batch(self, request: Request, answer: Answer) -> None:
        self._counts["requests"] += 1
        self._counts.update(item["kind"].lower() + "s" for item in msgspec.json.decode(request.body)["items"])
        self._counts["409"] += answer.body.count(b'"code":409')


def _resource(path: str) -> str:
    parts = path.partition("?")[0].split("/")
    return parts[parts.index("namespaces") + 2] if "namespaces" in parts else parts[-1]


async def answer_lines(counts: Callable[[], dict[str, int]]) -> None:
    """Say the counts for every line on our input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        print(json.dumps(counts()), flush=True)


async def _serve(kubeconfig: Path, ready: Ready) -> None:
    client = client_from_files([kubeconfig], user_agent="hekla-controllers")
    transport = CountingTransport(client.transport)
    client.transport = transport
    async with client, asyncio.TaskGroup() as group:
        group.create_task(answer_lines(transport.counts))
        group.create_task(
            controllers.run(client, clock=SystemClock(), rng=random.SystemRandom(), ready=lambda: ready("ready"))
        )


def main(arguments: list[str]) -> None:
    configure_logging("warning")

    async def run(ready: Ready) -> None:
        await _serve(Path(arguments[0]), ready)

    def start() -> Any:
        return run_until_terminated(run, ready=lambda word: print(word, flush=True))

    if "--profile" not in arguments:
        start()
        return
    profile = cProfile.Profile()
    try:
        profile.runcall(start)
    finally:
        profile.dump_stats(arguments[arguments.index("--profile") + 1])


if __name__ == "__main__":
    main(sys.argv[1:])
