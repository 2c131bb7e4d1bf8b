"""Watchers read the history at their own pace."""

from __future__ import annotations

import asyncio

import pytest

from hekla.apiserver.store.memory import MemoryStore
from hekla.apiserver.store.store import Compacted, Key


async def put(store: MemoryStore, name: str, resource: str = "/pods") -> None:
    await store.write(Key(resource, "", name), lambda current: {"metadata": {"name": name}})


def test_a_waiting_watcher_is_woken_by_its_resource_only() -> None:
    async def main() -> None:
        store = MemoryStore()
        waiting = asyncio.create_task(store.changed("/pods", 0))
        await put(store, "x", "/secrets")
        await asyncio.sleep(0)
        assert not waiting.done()
        await put(store, "x")
        await asyncio.wait_for(waiting, 1)

    asyncio.run(main())


def test_a_watcher_behind_the_history_is_told() -> None:
    async def main() -> None:
        store = MemoryStore(keep_changes=5)
        for number in range(10):
            await put(store, f"p{number}")
        assert store.compacted == 5
        with pytest.raises(Compacted):
            store.changes("/pods", 4)
        assert [change.entry.revision for change in store.changes("/pods", 5)] == [6, 7, 8, 9, 10]
        assert len(store.entries("/pods")) == 10

    asyncio.run(main())


def test_history_stays_bounded_over_many_writes() -> None:
    async def main() -> None:
        store = MemoryStore(keep_changes=50)
        for number in range(5000):
            await put(store, f"p{number % 7}")
        assert [c.entry.revision for c in store.changes("/pods", 4998)] == [4999, 5000]
        assert store.compacted == 4950

    asyncio.run(main())
