from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hekla.api.crds import load_crds
from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION
from tests.apiserver.live import LiveServer


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server process with Volcano's definitions, shared by a module's tests."""
    with LiveServer(tmp_path_factory.mktemp("server")) as server:
        asyncio.run(_install(server))
        yield server


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LiveServer]:
    """A server process of the test's own."""
    with LiveServer(tmp_path) as server:
        yield server


async def _install(server: LiveServer) -> None:
    client = server.client()
    for definition in load_crds():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await client.close()
