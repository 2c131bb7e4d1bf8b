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


def test_writes_of_one_lot_see_those_before_them() -> None:
    async def main() -> None:
        store = MemoryStore()
        results = await store.write_all([(KEY, add_one), (KEY, refuse), (KEY, add_one)], together=False)
        assert isinstance(results[0], Entry)
        assert isinstance(results[2], Entry)
        assert results[2].decode()["number"] == 2
        assert isinstance(results[1], AlreadyExists)
        assert store.revision == 2

    asyncio.run(main())


def test_writes_that_go_together_are_all_made_or_none() -> None:
    other = Key("/pods", "default", "b")

    async def main() -> None:
        store = MemoryStore()
        results = await store.write_all([(KEY, add_one), (other, refuse)], together=True)
        assert results[0] is None
        assert isinstance(results[1], AlreadyExists)
        assert (store.revision, store.newest(KEY)) == (0, None)
        await store.write_all([(KEY, add_one), (other, add_one)], together=True)
        assert store.revision == 2
        kept = await store.write_all([(KEY, lambda current: KEEP), (other, add_one)], together=True)
        assert [each.revision for each in kept if isinstance(each, Entry)] == [1, 3]

    asyncio.run(main())


def test_what_waits_to_become_durable_can_be_seen_by_those_who_decide() -> None:
    other = Key("/pods", "default", "b")

    async def main() -> None:
        store = MemoryStore()
        async with asyncio.TaskGroup() as group:
            for key in (KEY, other, KEY):
                group.create_task(store.write(key, add_one))
            await asyncio.sleep(0)
            assert [(each.entry.key.name, each.entry.revision) for each in store.pending("/pods")] == [
                ("b", 2),
                ("a", 3),
            ]
            assert store.pending("/nodes") == []
        assert store.pending("/pods") == []

    asyncio.run(main())


def refuse(current: Entry | None) -> dict[str, object]:
    raise AlreadyExists("taken")
