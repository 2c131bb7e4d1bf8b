"""The store against a dict: whatever is written, read, paged, watched, compacted or restarted, they agree."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hekla.apiserver.store.memory import MemoryStore
from hekla.apiserver.store.sqlite import SqliteStore
from hekla.apiserver.store.store import ChangeType, Compacted, Entry, Key, Remove
from hekla.clock import LoopClock

NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["", "one", "two"])
RESOURCES = st.sampled_from(["/pods", "batch/jobs"])
KEEP_CHANGES = 12


class StoreMachine(RuleBasedStateMachine):
    durable = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store: Any = self.loop.run_until_complete(self.open())
        self.live: dict[Key, tuple[int, int]] = {}
        self.history: list[tuple[int, ChangeType, Key, int]] = []
        self.snapshots: dict[int, dict[Key, tuple[int, int]]] = {0: {}}
        self.revision = 0

    async def open(self) -> Any:
        if self.durable:
            return SqliteStore(Path(self.folder.name) / "db", LoopClock(), keep_changes=KEEP_CHANGES)
        return MemoryStore(LoopClock(), keep_changes=KEEP_CHANGES)

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES, number=st.integers(0, 9))
    def put(self, resource: str, namespace: str, name: str, number: int) -> None:
        key = Key(resource, namespace, name)
        obj = {"metadata": {"name": name}, "number": number}
        entry = self.loop.run_until_complete(self.store.write(key, lambda current: obj))
        type_ = ChangeType.MODIFIED if key in self.live else ChangeType.ADDED
        self.record(key, entry, type_, number)

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES)
    def remove(self, resource: str, namespace: str, name: str) -> None:
        key = Key(resource, namespace, name)
        if key not in self.live:
            return
        number = self.live[key][1]
        entry = self.loop.run_until_complete(self.store.write(key, lambda current: Remove(current.decode())))
        self.record(key, entry, ChangeType.DELETED, number)

    def record(self, key: Key, entry: Entry, type_: ChangeType, number: int) -> None:
        self.revision += 1
        assert entry.revision == self.revision, "revisions grow by exactly one"
        if type_ is ChangeType.DELETED:
            del self.live[key]
        else:
            self.live[key] = (self.revision, number)
        self.history.append((self.revision, type_, key, number))
        self.snapshots[self.revision] = dict(self.live)

    @rule()
    def restart(self) -> None:
        if self.durable:
            self.loop.run_until_complete(self.store.close())
            self.store = self.loop.run_until_complete(self.open())

    @rule(resource=RESOURCES, after=st.integers(0, 60))
    def watch(self, resource: str, after: int) -> None:
        if after < self.store.compacted:
            with pytest.raises(Compacted):
                self.store.changes(resource, after)
            return
        seen = [
            (c.entry.revision, c.type, c.entry.key, c.entry.decode()["number"]) for c in self.changes(resource, after)
        ]
        assert seen == [each for each in self.history if each[0] > after and each[2].resource == resource]

    def changes(self, resource: str, after: int) -> list[Any]:
        return list(self.store.changes(resource, after))

    @rule(resource=RESOURCES, namespace=NAMESPACES, at=st.integers(0, 60))
    def list_the_past(self, resource: str, namespace: str, at: int) -> None:
        if self.store.compacted <= at <= self.revision:
            self.check_list(resource, namespace, self.snapshots[at], at)

    @invariant()
    def agree(self) -> None:
        assert self.store.revision == self.revision
        for resource in ("/pods", "batch/jobs"):
            self.check_list(resource, "", self.live, None)
        for key, (revision, number) in self.live.items():
            entry = self.store.get(key)
            assert (entry.revision, entry.decode()["number"]) == (revision, number)
            assert entry.decode()["metadata"]["resourceVersion"] == str(revision)

    def check_list(self, resource: str, namespace: str, wanted: dict[Key, tuple[int, int]], at: int | None) -> None:
        keys = sorted(k for k in wanted if k.resource == resource and (not namespace or k.namespace == namespace))
        found = self.store.entries(resource, namespace, at=at)
        assert [(e.key, e.revision, e.decode()["number"]) for e in found] == [(k, *wanted[k]) for k in keys]


class DurableStoreMachine(StoreMachine):
    durable = True


TestMemoryStore = StoreMachine.TestCase
TestMemoryStore.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestSqliteStore = DurableStoreMachine.TestCase
TestSqliteStore.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
