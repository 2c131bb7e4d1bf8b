"""Whoever follows a resource hears of every object as it is, however often and late it looks."""

from __future__ import annotations

import asyncio
import random

from hekla.api.kinds import Obj
from hekla.apiserver.store.following import FollowingNewest, newest_entries
from hekla.apiserver.store.memory import MemoryStore
from hekla.apiserver.store.store import Entry, Key, Remove


def put(current: Entry | None) -> Obj:
    return {"metadata": {"name": "any"}}


def remove(current: Entry | None) -> Remove:
    assert current is not None
    return Remove(current.decode())


def test_the_newest_are_heard_of_once_durable_or_not_and_though_the_history_is_short() -> None:
    async def main(seed: int) -> None:
        rng = random.Random(seed)
        store = MemoryStore(keep_changes=rng.choice([3, 1000]))
        following, copy = FollowingNewest(store, "/pods"), dict[Key, Entry]()
        writes: list[asyncio.Task[Entry]] = []
        for _ in range(200):
            key = Key(rng.choice(["/pods", "/services"]), rng.choice("xy"), rng.choice("abc"))
            guard = remove if store.newest(key) is not None and rng.random() < 0.4 else put
            writes.append(asyncio.create_task(store.write(key, guard)))
            # The write is sequenced in the first turn and durable in the second.
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                await asyncio.sleep(0)
            if rng.random() < 0.5:
                look(following, copy)
                assert copy == {key: entry for key in copy_keys() if (entry := store.newest(key)) is not None}
                told = dict(newest_entries(store, "/pods", "x"))
                assert {key: entry for key, entry in told.items() if entry} == {
                    key: entry for key, entry in copy.items() if key.namespace == "x"
                }
        await asyncio.gather(*writes)

    for seed in range(50):
        asyncio.run(main(seed))


def test_nothing_is_told_twice() -> None:
    async def main() -> None:
        store = MemoryStore()
        following = FollowingNewest(store, "/pods")
        following.look()
        writing = asyncio.create_task(store.write(Key("/pods", "x", "a"), put))
        await asyncio.sleep(0)
        assert store.sequenced("/pods") == store.revision + 1
        assert len(following.look()[1]) == 1
        await writing
        assert store.sequenced("/pods") == store.revision
        assert following.look() == (False, [])
        await store.write(Key("/services", "x", "a"), put)
        assert following.look() == (False, [])

    asyncio.run(main())


def look(following: FollowingNewest, copy: dict[Key, Entry]) -> None:
    anew, changed = following.look()
    if anew:
        copy.clear()
    for key, entry in changed:
        if entry is None:
            copy.pop(key, None)
        else:
            copy[key] = entry


def copy_keys() -> list[Key]:
    return [Key("/pods", namespace, name) for namespace in "xy" for name in "abc"]
