"""The durable store's files: who may read them, who may open them, what survives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from hekla.apiserver.store.sqlite import DatabaseUnusable, SqliteStore
from hekla.apiserver.store.store import Key, Remove, StoreBroken
from hekla.clock import SystemClock

WRITER = """
import asyncio, sys
from pathlib import Path
from hekla.apiserver.store.sqlite import SqliteStore
from hekla.apiserver.store.store import Key
from hekla.clock import SystemClock

async def writer(store, lane):
    number = 0
    while True:
        name = f"{lane}-{number % 20}"
        entry = await store.write(Key("/pods", "", name), lambda c: {"metadata": {"name": name}, "pad": "x" * 500})
        # One line, written at once: the journal of what has been acknowledged.
        sys.stdout.write(f"{entry.revision} {name}\\n")
        sys.stdout.flush()
        number += 1

async def main():
    store = SqliteStore.open(Path(sys.argv[1]), SystemClock())
    await asyncio.gather(*(writer(store, lane) for lane in range(8)))

asyncio.run(main())
"""


def put(store: SqliteStore, name: str, **fields: object) -> object:
    return store.write(Key("/pods", "", name), lambda current: {"metadata": {"name": name}, **fields})


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async def main() -> None:
        before = os.umask(0)
        try:
            store = SqliteStore.open(tmp_path / "db", SystemClock())
            await put(store, "a")
        finally:
            os.umask(before)
        for file in tmp_path.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file
        await store.close()

    asyncio.run(main())


def test_two_servers_cannot_open_one_database(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore.open(tmp_path / "db", SystemClock())
        with pytest.raises(DatabaseUnusable, match="in use"):
            SqliteStore.open(tmp_path / "db", SystemClock())
        await store.close()
        await SqliteStore.open(tmp_path / "db", SystemClock()).close()

    asyncio.run(main())


def test_something_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"not a database, but long enough to be looked at as one" * 100)

    async def main() -> None:
        with pytest.raises(DatabaseUnusable):
            SqliteStore.open(tmp_path / "db", SystemClock())

    asyncio.run(main())


def test_revisions_go_on_after_everything_was_deleted_and_compacted(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "db", SystemClock(), keep_changes=2)
        for _ in range(10):
            await put(store, "a")
            await store.write(Key("/pods", "", "a"), lambda current: Remove(current.decode()))
        await put(store, "b")
        await store.close()
        store = SqliteStore(tmp_path / "db", SystemClock(), keep_changes=2)
        assert store.revision == 21
        assert [entry.key.name for entry in store.entries("/pods")] == ["b"]
        await store.close()

    asyncio.run(main())


def test_rows_nobody_can_ask_for_are_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "db", SystemClock(), keep_changes=10)
        for number in range(300):
            await put(store, f"p{number % 3}")
        await store.close()

    asyncio.run(main())
    rows = next(apsw.Connection(str(tmp_path / "db")).execute("SELECT count(*) FROM log"))[0]
    assert rows <= 20


def test_an_error_of_the_disk_stops_all_writing(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore.open(tmp_path / "db", SystemClock())
        await put(store, "a")
        # From now on the database cannot grow: every commit fails as on a full disk.
        store._connection.execute("PRAGMA max_page_count=1")
        with pytest.raises(StoreBroken):
            await asyncio.gather(*(put(store, f"big{n}", pad="x" * 100_000) for n in range(5)))
        await store.failed()
        assert store.broken
        with pytest.raises(StoreBroken):
            await put(store, "b")
        assert store.get(Key("/pods", "", "a")) is not None
        await store.close()

    asyncio.run(main())


def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore.open(tmp_path / "db", SystemClock())
        for name in "abc":
            await put(store, name)
        await store.close()
        store = SqliteStore.open(tmp_path / "db", SystemClock())
        assert [change.entry.key.name for change in store.changes("/pods", 1)] == ["b", "c"]
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("attempt", range(4))
def test_no_acknowledged_write_is_lost_to_kill_9(tmp_path: Path, attempt: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        journal = [process.stdout.readline() for _ in range(100 + 300 * attempt)]
        process.send_signal(signal.SIGKILL)
        journal += process.stdout.readlines()
    acknowledged = [line.split() for line in journal if line.endswith("\n")]
    newest = {name: int(revision) for revision, name in acknowledged}

    async def main() -> None:
        store = SqliteStore.open(tmp_path / "db", SystemClock())
        for name, revision in newest.items():
            entry = store.get(Key("/pods", "", name))
            assert entry is not None
            assert entry.revision >= revision
        assert store.revision >= max(newest.values())
        assert (await put(store, "after")).revision == store.revision
        await store.close()

    asyncio.run(main())
