"""Upstream's recorded decisions, played to our scheduler on our API server in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hekla.api import kinds
from hekla.api.crds import load_crds
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.scheduler.config import ConfigError, parse_config
from hekla.scheduler.scheduler import SchedulerSettings, run
from tests.integration.virtual_loop import run_virtually
from tests.scheduler.recorded import all_names, explained, load, unexplained
from tests.scheduler.replay import NAMESPACE, Replay

QUIET_SECONDS = 3.0
WAITING: dict[str, str] = explained()["waiting"]


@pytest.mark.parametrize("name", [name for name in all_names() if name not in WAITING])
def test_the_outcome_is_upstreams_or_the_difference_is_meant(name: str, tmp_path: Path) -> None:
    stages, events = run_virtually(play(name, tmp_path))
    assert unexplained(load(name), stages, events) == {}


def test_every_explanation_is_about_a_recording_and_gives_a_known_reason() -> None:
    different, reasons = explained()["different"], explained()["reasons"]
    assert {*different, *WAITING} <= set(all_names())
    assert {why for paths in different.values() for why in paths.values()} == set(reasons)


@pytest.mark.parametrize("name", WAITING)
def test_what_waits_is_still_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match="not supported yet"):
        parse_config(load(name).config)


async def play(name: str, directory: Path) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    clock = LoopClock()
    app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(0))
    await app.start()
    client = Client(InProcessTransport(app))
    for definition in load_crds():
        await client.create(kinds.CUSTOM_RESOURCE_DEFINITION, definition)
    for namespace in (NAMESPACE, "kube-system"):
        if await client.find(kinds.NAMESPACE, namespace) is None:
            await client.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
        account = {"metadata": {"name": "default", "namespace": namespace}}
        if await client.find(kinds.SERVICE_ACCOUNT, "default", namespace) is None:
            await client.create(kinds.SERVICE_ACCOUNT, account)

    @contextlib.asynccontextmanager
    async def start(conf: Path) -> AsyncIterator[None]:
        settings = SchedulerSettings(conf=conf)
        task = asyncio.create_task(
            run(Client(InProcessTransport(app)), clock=clock, rng=random.Random(1), settings=settings)
        )
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    replay = Replay(load(name), client, quiet=QUIET_SECONDS)
    await replay.run(start, directory)
    return replay.stages, replay.events
