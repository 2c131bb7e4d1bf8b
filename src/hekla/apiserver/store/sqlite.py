"""The durable store: a SQLite log with one row per write, whose row number is the revision.

One thread owns the connection and does all writing, checkpointing and compaction. It takes whatever writes are waiting
and commits them together, so the price of an fsync is shared. The present is the newest row of every key; it is kept
in memory (`feed.py`), so reading never touches SQLite after `open`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import apsw

from hekla.apiserver.store.sequencer import KEEP_CHANGES, KEEP_SECONDS, Sequenced, Sequencer
from hekla.apiserver.store.store import Change, ChangeType, Entry, Key
from hekla.clock import Clock
from hekla.errors import HeklaError
from hekla.log import get_logger

log = get_logger("store")

_APPLICATION_ID = 0x48454B4C
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY, type TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL,
    name TEXT NOT NULL, value BLOB NOT NULL);
CREATE TABLE state (only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL, compacted INTEGER NOT NULL);
INSERT INTO state VALUES (1, 0, 0);
"""
_PRAGMAS = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA mmap_size=0; PRAGMA trusted_schema=OFF;
PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON; PRAGMA journal_size_limit=67108864;
"""
_BATCH = 512
_ROWS_AT_ONCE = (128, 32, 8, 1)
_VALUES = "(?, ?, ?, ?, ?, ?)"
_INSERTS = {size: "INSERT INTO log VALUES " + ", ".join([_VALUES] * size) for size in _ROWS_AT_ONCE}  # noqa: S608
_COMPACT_AT_ONCE = 2000

_Row = tuple[int, str, str, str, str, bytes]


class DatabaseUnusable(HeklaError):
    """The database cannot be opened: in use, not ours, or damaged."""


class SqliteStore(Sequencer):
    """Use `SqliteStore.open`, on the event loop that will use the store. `vfs` is where tests put failing disks."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        keep_changes: int = KEEP_CHANGES,
        keep_seconds: float = KEEP_SECONDS,
        vfs: str = "",
    ) -> None:
        super().__init__(clock, keep_changes=keep_changes, keep_seconds=keep_seconds)
        self._loop = asyncio.get_running_loop()
        self._lock = _lock(path)
        self._waiting: SimpleQueue[list[Sequenced] | None] = SimpleQueue()
        self._garbage: SimpleQueue[tuple[int, list[int]]] = SimpleQueue()
        try:
            self._connection = _connect(path, vfs)
            self._load()
        except BaseException:
            os.close(self._lock)
            raise
        self._stopped = asyncio.Event()
        self._writer = threading.Thread(target=self._write_until_closed, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, path: Path, clock: Clock) -> SqliteStore:
        return cls(path, clock)

    async def close(self) -> None:
        await super().close()
        self._waiting.put(None)
        await self._stopped.wait()
        self._writer.join()
        try:
            self._connection.close()
        except apsw.Error as error:
            # The last checkpoint failed. Nothing is lost: the log it would have emptied is still there.
            log.error("store closed in disorder", error=error)
        finally:
            os.close(self._lock)

    # ---- the event loop's side

    def _persist(self, unit: list[Sequenced]) -> None:
        self._waiting.put(unit)

    def _after_commit(self, batch: list[Sequenced]) -> None:
        self._discard(self._committed(batch))

    def _discard(self, dropped: list[Change]) -> None:
        if dropped:
            rows = [row for change in dropped for row in _superseded(change)]
            self._garbage.put((dropped[-1].entry.revision, rows))

    def _load(self) -> None:
        self._feed.revision, self._feed.compacted = next(
            self._connection.execute("SELECT revision, compacted FROM state")
        )
        self._next = self._feed.revision + 1
        newest: dict[Key, Entry] = {}
        recent: list[Change] = []
        rows = self._connection.execute("SELECT revision, type, resource, namespace, name, value FROM log ORDER BY 1")
        for revision, type_, resource, namespace, name, value in rows:
            key = Key(resource, namespace, name)
            entry = Entry(key, revision, value)
            if revision > self._feed.compacted:
                recent.append(Change(ChangeType(type_), entry, newest.get(key)))
            elif type_ != ChangeType.DELETED:
                self._feed.load(entry)
            if type_ == ChangeType.DELETED:
                newest.pop(key, None)
            else:
                newest[key] = entry
        if recent:
            self._discard(self._feed.commit(recent, self._clock.monotonic()))

    # ---- the writer's side

    def _write_until_closed(self) -> None:
        try:
            while (first := self._waiting.get()) is not None:
                batch, last = list(first), False
                while len(batch) < _BATCH and not self._waiting.empty():
                    another = self._waiting.get()
                    if another is None:
                        last = True
                        break
                    batch += another
                self._commit(batch)
                self._loop.call_soon_threadsafe(self._after_commit, batch)
                if last:
                    break
        except Exception as error:
            # An error of the disk must not be retried: what it lost is unknown. Stop, and let the owner restart.
            log.error("store failed", error=error)
            self._tell(self._break, error)
        finally:
            self._tell(self._stopped.set)

    def _tell(self, callback: object, *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)  # type: ignore[arg-type]

    def _commit(self, batch: list[Sequenced]) -> None:
        with _transaction(self._connection):
            self._insert([_row(sequenced.change) for sequenced in batch])
            compacted = self._compact()
            self._connection.execute(
                "UPDATE state SET revision = ?, compacted = max(compacted, ?)",
                (batch[-1].change.entry.revision, compacted),
            )

    def _insert(self, rows: list[_Row]) -> None:
        """In as few statements as may be: after each one this thread has to win the interpreter lock back from a busy
        event loop."""
        for size in _ROWS_AT_ONCE:
            while len(rows) >= size:
                values = [value for row in rows[:size] for value in row]
                self._connection.execute(_INSERTS[size], values)
                rows = rows[size:]

    def _compact(self) -> int:
        """Delete rows that the history has dropped, a bounded number at a time. Returns the new horizon."""
        compacted = deleted = 0
        while deleted < _COMPACT_AT_ONCE and not self._garbage.empty():
            compacted, rows = self._garbage.get()
            self._connection.executemany("DELETE FROM log WHERE revision = ?", ((row,) for row in rows))
            deleted += len(rows) + 1
        return compacted


def _superseded(change: Change) -> Iterator[int]:
    """The rows nobody can ask for once a change has left the history."""
    if change.superseded is not None:
        yield change.superseded
    if change.type is ChangeType.DELETED:
        yield change.entry.revision


def _row(change: Change) -> _Row:
    key = change.entry.key
    return change.entry.revision, change.type.value, key.resource, key.namespace, key.name, change.entry.value


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise DatabaseUnusable(f"{path} is in use by another server") from None
    return lock


def _connect(path: Path, vfs: str) -> apsw.Connection:
    try:
        # The file gets its mode before its first byte; SQLite gives WAL and SHM the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        connection = apsw.Connection(str(path), statementcachesize=32, vfs=vfs or None)
        # Nobody else may open it (see `_lock`), so no memory need be shared with anybody.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        found = next(connection.execute("PRAGMA user_version"))[0]
        if found == 0:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute(_PRAGMAS)
        if found == 0:
            with _transaction(connection):
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={_SCHEMA_VERSION}")
        elif found != _SCHEMA_VERSION:
            raise DatabaseUnusable(f"{path} was written by another version (schema {found})")
        problem = next(connection.execute("PRAGMA quick_check(1)"))[0]
    except (apsw.Error, OSError) as error:
        raise DatabaseUnusable(f"{path} cannot be opened: {error}") from error
    if problem != "ok":
        raise DatabaseUnusable(f"{path} is damaged: {problem}")
    return connection
