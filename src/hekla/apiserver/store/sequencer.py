"""The order of writes, shared by every store.

The event loop is the sequencer: it runs guards one after another against the newest state, numbers their results and
hands them on to be made durable. `Sequenced` writes become visible in that same order when `_committed` is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.store.feed import Feed
from hekla.apiserver.store.store import Change, ChangeType, Entry, Guard, Keep, Key, Remove, StoreBroken, Written
from hekla.clock import Clock

KEEP_CHANGES = 100_000
KEEP_SECONDS = 300.0

_encode = msgspec.json.Encoder().encode


class Sequenced:
    """A numbered write on its way to the disk."""

    __slots__ = ("change", "done")

    def __init__(self, change: Change, done: asyncio.Future[None]) -> None:
        self.change = change
        self.done = done


class Sequencer:
    def __init__(self, clock: Clock, *, keep_changes: int = KEEP_CHANGES, keep_seconds: float = KEEP_SECONDS) -> None:
        self._clock = clock
        self._feed = Feed(keep_changes=keep_changes, keep_seconds=keep_seconds)
        self._pending: dict[Key, Sequenced] = {}
        self._newest: dict[str, int] = {}
        self._next = 1
        self._broken: BaseException | None = None
        self._failed = asyncio.Event()

    @property
    def revision(self) -> int:
        return self._feed.revision

    @property
    def compacted(self) -> int:
        return self._feed.compacted

    @property
    def broken(self) -> bool:
        return self._broken is not None

    def get(self, key: Key) -> Entry | None:
        return self._feed.get(key)

    def newest(self, key: Key) -> Entry | None:
        pending = self._pending.get(key)
        if pending is None:
            return self._feed.get(key)
        return None if pending.change.type is ChangeType.DELETED else pending.change.entry

    def pending(self, resource: str, after: int = 0) -> list[Change]:
        found: list[Change] = []
        # The newest are last, and usually all that is asked for.
        for key, each in reversed(self._pending.items()):
            if each.change.entry.revision <= after:
                break
            if key.resource == resource:
                found.append(each.change)
        found.reverse()
        return found

    def sequenced(self, resource: str) -> int:
        return self._newest.get(resource, 0)

    def entries(self, resource: str, namespace: str = "", *, at: int | None = None) -> list[Entry]:
        return self._feed.entries(resource, namespace, at)

    def resources(self) -> list[str]:
        return self._feed.resources()

    def changes(self, resource: str, after: int, limit: int | None = None) -> Sequence[Change]:
        return self._feed.changes(resource, after, limit)

    async def changed(self, resource: str, after: int) -> None:
        await self._feed.changed(resource, after)

    async def write(self, key: Key, guard: Guard) -> Entry:
        if self._broken is not None:
            raise StoreBroken("the store has stopped accepting writes") from self._broken
        current = self.newest(key)
        pending = self._pending.get(key)
        try:
            answer = guard(current)
        except Exception:
            # The refusal may rest on a write that is not durable yet; say no only when it is.
            await _settled(pending)
            raise
        if isinstance(answer, Keep):
            await _settled(pending)
            assert current is not None
            return current
        sequenced = self._number(key, answer, current)
        self._persist([sequenced])
        await asyncio.shield(sequenced.done)
        return sequenced.change.entry

    async def write_all(self, writes: Sequence[tuple[Key, Guard]], *, together: bool) -> list[Written]:
        if self._broken is not None:
            raise StoreBroken("the store has stopped accepting writes") from self._broken
        earlier = [pending for key, _ in writes if (pending := self._pending.get(key)) is not None]
        numbered, results = self._sequence_together(writes) if together else self._sequence_each(writes)
        if numbered:
            self._persist(numbered)
            await asyncio.shield(numbered[-1].done)
        # Refusals may rest on writes that are not durable yet.
        for pending in earlier:
            await _settled(pending)
        return results

    def _sequence_each(self, writes: Sequence[tuple[Key, Guard]]) -> tuple[list[Sequenced], list[Written]]:
        numbered: list[Sequenced] = []
        results: list[Written] = []
        for key, guard in writes:
            current = self.newest(key)
            try:
                answer = guard(current)
            except Exception as error:
                results.append(error)
                continue
            if isinstance(answer, Keep):
                results.append(current)
                continue
            numbered.append(self._number(key, answer, current))
            results.append(numbered[-1].change.entry)
        return numbered, results

    def _sequence_together(self, writes: Sequence[tuple[Key, Guard]]) -> tuple[list[Sequenced], list[Written]]:
        decided: list[tuple[Key, Obj | Remove | Keep, Entry | None]] = []
        refused: list[Written] = []
        for key, guard in writes:
            current = self.newest(key)
            try:
                decided.append((key, guard(current), current))
                refused.append(None)
            except Exception as error:
                refused.append(error)
        if len(decided) < len(writes):
            return [], refused
        numbered: list[Sequenced] = []
        results: list[Written] = []
        for key, answer, current in decided:
            if not isinstance(answer, Keep):
                numbered.append(self._number(key, answer, current))
                current = numbered[-1].change.entry
            results.append(current)
        return numbered, results

    async def failed(self) -> None:
        """Wait until the disk fails."""
        await self._failed.wait()

    async def close(self) -> None:
        while self._pending and self._broken is None:
            await _settled(next(iter(self._pending.values())))

    def _number(self, key: Key, answer: object, current: Entry | None) -> Sequenced:
        obj = answer.obj if isinstance(answer, Remove) else answer
        assert isinstance(obj, dict)
        obj["metadata"]["resourceVersion"] = str(self._next)
        entry = Entry(key, self._next, _encode(obj))
        if isinstance(answer, Remove):
            type_ = ChangeType.DELETED
        else:
            type_ = ChangeType.ADDED if current is None else ChangeType.MODIFIED
        sequenced = Sequenced(Change(type_, entry, current), asyncio.get_running_loop().create_future())
        self._newest[key.resource] = self._next
        self._next += 1
        # Popped first: the order of the dict is the order of the writes.
        self._pending.pop(key, None)
        self._pending[key] = sequenced
        return sequenced

    def _persist(self, unit: list[Sequenced]) -> None:
        """Make the writes durable, all or none, then have `_committed` called on the event loop, in order."""
        raise NotImplementedError

    def _committed(self, batch: list[Sequenced]) -> list[Change]:
        """Show durable writes to everybody. Returns the changes that may now be compacted."""
        dropped = self._feed.commit([sequenced.change for sequenced in batch], self._clock.monotonic())
        for sequenced in batch:
            if self._pending.get(sequenced.change.entry.key) is sequenced:
                del self._pending[sequenced.change.entry.key]
            if not sequenced.done.done():
                sequenced.done.set_result(None)
        return dropped

    def _break(self, error: BaseException) -> None:
        """The disk failed: refuse everything in flight and everything to come."""
        self._broken = error
        self._failed.set()
        pending, self._pending = list(self._pending.values()), {}
        for sequenced in pending:
            if not sequenced.done.done():
                sequenced.done.set_exception(StoreBroken(str(error)))
                # Whoever asked for the write may have gone away; then nobody is left to hear of it.
                sequenced.done.exception()


async def _settled(pending: Sequenced | None) -> None:
    if pending is not None:
        await asyncio.shield(pending.done)
