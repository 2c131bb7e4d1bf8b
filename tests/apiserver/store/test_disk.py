"""Power cuts and disk errors: no acknowledged write is lost, and nothing false is acknowledged."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from hekla.apiserver.store.sqlite import DatabaseUnusable, SqliteStore
from hekla.apiserver.store.store import Guard, Key, StoreBroken
from hekla.clock import SystemClock
from tests.apiserver.store.failing_disk import FailingDisk, PowerCutDisk

Acknowledged = dict[str, int]


async def write_some(store: SqliteStore, rounds: int, acknowledged: Acknowledged) -> None:
    async def put(name: str, number: int) -> None:
        obj = {"metadata": {"name": name}, "pad": "x" * (number * 37 % 5000)}
        entry = await store.write(Key("/pods", "", name), lambda current: obj)
        acknowledged[name] = entry.revision

    for number in range(rounds):
        results = await asyncio.gather(*(put(f"p{lane}", number) for lane in range(5)), return_exceptions=True)
        assert all(result is None or isinstance(result, StoreBroken) for result in results)


def lost(path: Path, acknowledged: Acknowledged) -> list[str]:
    async def main() -> list[str]:
        store = SqliteStore.open(path, SystemClock())
        missing = []
        for name, revision in acknowledged.items():
            entry = store.get(Key("/pods", "", name))
            if entry is None or entry.revision < revision:
                missing.append(name)
        await store.close()
        return missing

    return asyncio.run(main())


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    assert _cut(tmp_path, seed, weaken=False) == []


def _cut(folder: Path, seed: int, *, weaken: bool) -> list[str]:
    rng = random.Random(seed)
    disk = PowerCutDisk(f"power-cut-{seed}-{weaken}")
    acknowledged: Acknowledged = {}
    after = folder / "after"
    after.mkdir()

    async def main() -> None:
        store = SqliteStore(folder / "db", SystemClock(), vfs=disk.name, keep_changes=20)
        if weaken:
            store._connection.execute("PRAGMA synchronous=NORMAL")
        await write_some(store, rng.randrange(1, 30), acknowledged)
        disk.cut(after, rng)
        await store.close()

    asyncio.run(main())
    try:
        return lost(after / "db", acknowledged)
    except DatabaseUnusable:
        return list(acknowledged)


def test_the_same_cuts_lose_writes_when_the_store_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    """The check of the check: it can see a loss."""
    losses = []
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        losses.append(_cut(tmp_path / str(seed), seed, weaken=True))
    assert any(losses)


@pytest.mark.parametrize("allowed", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55])
def test_an_error_at_any_write_is_told_and_loses_nothing(tmp_path: Path, allowed: int) -> None:
    disk = FailingDisk(f"failing-{allowed}")
    acknowledged: Acknowledged = {}

    async def main() -> None:
        store = SqliteStore(tmp_path / "db", SystemClock(), vfs=disk.name)
        await write_some(store, 2, acknowledged)
        disk.remaining = allowed
        await write_some(store, 30, acknowledged)
        assert store.broken
        await store.close()
        disk.remaining = 1 << 30

    asyncio.run(main())
    assert lost(tmp_path / "db", acknowledged) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_all_or_none_of_what_was_written_together(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = PowerCutDisk(f"gang-cut-{seed}")
    after = tmp_path / "after"
    after.mkdir()

    async def write_gangs() -> None:
        store = SqliteStore(tmp_path / "db", SystemClock(), vfs=disk.name)
        gangs = [asyncio.ensure_future(_write_gang(store, f"g{number}")) for number in range(8)]
        await gangs[rng.randrange(8)]
        disk.cut(after, rng)
        await asyncio.gather(*gangs)
        await store.close()

    async def sizes() -> list[int]:
        store = SqliteStore.open(after / "db", SystemClock())
        found = [len(store.entries("/pods", f"g{number}")) for number in range(8)]
        await store.close()
        return found

    asyncio.run(write_gangs())
    found = asyncio.run(sizes())
    assert set(found) <= {0, 700}
    assert 700 in found


async def _write_gang(store: SqliteStore, gang: str) -> None:
    writes = [(Key("/pods", gang, f"p{n}"), _make(gang, f"p{n}")) for n in range(700)]
    await store.write_all(writes, together=True)


def _make(namespace: str, name: str) -> Guard:
    return lambda current: {"metadata": {"namespace": namespace, "name": name}}
