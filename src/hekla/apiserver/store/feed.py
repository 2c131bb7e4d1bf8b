"""The committed present and the recent past: live objects, and a bounded history watchers read at their own pace.

A watcher holds no queue here, only the revision it has read up to: a slow one costs nothing and is told Compacted
when it falls behind the history.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from operator import attrgetter

from hekla.apiserver.store.store import Change, ChangeType, Compacted, Entry, Key

_revision = attrgetter("entry.revision")


class Feed:
    def __init__(self, *, keep_changes: int, keep_seconds: float) -> None:
        self.revision = 0
        self.compacted = 0
        self._keep_changes = keep_changes
        self._keep_seconds = keep_seconds
        self._tables: dict[str, _Table] = {}
        self._log: deque[tuple[float, Change]] = deque()

    def get(self, key: Key) -> Entry | None:
        table = self._tables.get(key.resource)
        return table.live.get((key.namespace, key.name)) if table is not None else None

    def entries(self, resource: str, namespace: str, at: int | None) -> list[Entry]:
        table = self._tables.get(resource)
        if at is not None and at < self.compacted:
            raise Compacted
        if table is None:
            return []
        if at is None or at >= self.revision:
            return table.entries(namespace)
        return table.entries_at(namespace, at)

    def resources(self) -> list[str]:
        return sorted(resource for resource, table in self._tables.items() if table.live)

    def load(self, entry: Entry) -> None:
        """Take in an object found at start."""
        self._table(entry.key.resource).put(entry)

    def commit(self, changes: list[Change], now: float) -> list[Change]:
        """Take in durable changes, wake watchers, and give back the changes that fell out of the history."""
        touched: dict[str, _Table] = {}
        for change in changes:
            table = self._table(change.entry.key.resource)
            table.apply(change)
            touched[change.entry.key.resource] = table
            self._log.append((now, change))
        self.revision = changes[-1].entry.revision
        for table in touched.values():
            table.wake()
        return self._trim(now)

    def changes(self, resource: str, after: int, limit: int | None) -> list[Change]:
        if after < self.compacted:
            raise Compacted
        table = self._tables.get(resource)
        return table.changes(after, limit) if table is not None else []

    async def changed(self, resource: str, after: int) -> None:
        await self._table(resource).changed(after)

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table

    def _trim(self, now: float) -> list[Change]:
        dropped: list[Change] = []
        log = self._log
        while log and (len(log) > self._keep_changes or log[0][0] < now - self._keep_seconds):
            change = log.popleft()[1]
            self.compacted = change.entry.revision
            self._tables[change.entry.key.resource].forget(change)
            dropped.append(change)
        return dropped


class _Table:
    """One resource: its live objects and its own part of the history."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Entry] = {}
        self._sorted: list[tuple[str, str]] | None = []
        self._history: list[Change] = []
        self._forgotten = 0
        self._newest = 0
        self._waiting: list[asyncio.Future[None]] = []

    def put(self, entry: Entry) -> None:
        key = (entry.key.namespace, entry.key.name)
        if key not in self.live:
            self._sorted = None
        self.live[key] = entry
        self._newest = max(self._newest, entry.revision)

    def apply(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self.live.pop((change.entry.key.namespace, change.entry.key.name), None)
            self._sorted = None
            self._newest = change.entry.revision
        else:
            self.put(change.entry)
        self._history.append(change)

    def entries(self, namespace: str) -> list[Entry]:
        keys = self._keys()
        live = self.live
        if not namespace:
            return [live[key] for key in keys]
        return [
            live[key] for key in keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        ]

    def entries_at(self, namespace: str, at: int) -> list[Entry]:
        if at >= self._newest:
            # What has changed since is of other resources: later pages of a long list cost no more than the first.
            return self.entries(namespace)
        past: dict[tuple[str, str], Entry | None] = dict(self.live)
        for change in reversed(self.changes(at)):
            past[(change.entry.key.namespace, change.entry.key.name)] = change.previous
        found = [entry for _, entry in sorted(past.items()) if entry is not None]
        return [entry for entry in found if not namespace or entry.key.namespace == namespace]

    def changes(self, after: int, limit: int | None = None) -> list[Change]:
        if after >= self._newest:
            return []
        start = bisect_right(self._history, after, lo=self._forgotten, key=_revision)
        return self._history[start : None if limit is None else start + limit]

    def forget(self, change: Change) -> None:
        change.previous = None
        self._forgotten += 1
        if self._forgotten > 1000 and self._forgotten * 2 > len(self._history):
            del self._history[: self._forgotten]
            self._forgotten = 0

    async def changed(self, after: int) -> None:
        if self._newest > after:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _keys(self) -> list[tuple[str, str]]:
        if self._sorted is None:
            self._sorted = sorted(self.live)
        return self._sorted
