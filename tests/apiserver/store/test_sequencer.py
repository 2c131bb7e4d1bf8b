"""Guards run in the order of the writes and see what was written before them; nothing undurable is shown."""

from __future__ import annotations

import asyncio

import pytest

from hekla.apiserver.store.memory import MemoryStore
from hekla.apiserver.store.store import KEEP, Entry, Key
from hekla.errors import AlreadyExists

KEY = Key("/pods", "default", "a")


def add_one(current: Entry | None) -> dict[str, object]:
    number = current.decode()["number"] if current is not None else 0
    return {"metadata": {"name": "a"}, "number": number + 1}


def test_a_hundred_writers_at_once_lose_no_update() -> None:
    async def main() -> int:
        store = MemoryStore()
        await asyncio.gather(*(store.write(KEY, add_one) for _ in range(100)))
        entry = store.get(KEY)
        assert entry is not None
        return int(entry.decode()["number"])

    assert asyncio.run(main()) == 100


def test_a_write_is_not_visible_before_it_is_committed() -> None:
    async def main() -> None:
        store = MemoryStore()
        writing = asyncio.create_task(store.write(KEY, add_one))
        await asyncio.sleep(0)
        assert store.get(KEY) is None
        assert store.newest(KEY) is not None
        await writing
        assert store.get(KEY) is not None

    asyncio.run(main())


def test_a_refusal_waits_for_the_write_it_rests_on() -> None:
    def refuse(current: Entry | None) -> dict[str, object]:
        assert current is not None
        raise AlreadyExists("taken")

    async def main() -> None:
        store = MemoryStore()
        first = asyncio.create_task(store.write(KEY, add_one))
        await asyncio.sleep(0)
        with pytest.raises(AlreadyExists):
            await store.write(KEY, refuse)
        assert store.get(KEY) is not None
        await first

    asyncio.run(main())


def test_keeping_makes_no_revision() -> None:
    async def main() -> None:
        store = MemoryStore()
        written = await store.write(KEY, add_one)
        assert await store.write(KEY, lambda current: KEEP) is written
        assert store.revision == 1

    asyncio.run(main())


def test_a_writer_that_is_cancelled_leaves_the_order_intact() -> None:
    async def main() -> None:
        store = MemoryStore()
        task = asyncio.create_task(store.write(KEY, add_one))
        await asyncio.sleep(0)
        task.cancel()
        entry = await store.write(KEY, add_one)
        assert entry.decode()["number"] == 2
        assert store.revision == 2

    asyncio.run(main())
