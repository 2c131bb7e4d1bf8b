"""The contract of the store: one ordered sequence of writes, each with a revision.

Promises every implementation keeps:

- A write is acknowledged, readable and seen by watchers only after it is durable.
- Revisions grow by exactly one per write, are never reused and survive a restart.
- A guard runs in the order of the writes: it sees the result of every write sequenced before its own.
- The bytes of an object are encoded once and handed to every reader as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from hekla.api.kinds import Obj

_decode = msgspec.json.Decoder().decode


class Key(NamedTuple):
    """`resource` is `group/plural` (`/pods` for the core group)."""

    resource: str
    namespace: str
    name: str


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Entry:
    """One revision of one object. Immutable but for `note`, where readers keep what they derived from the bytes."""

    __slots__ = ("_shown", "key", "note", "revision", "value")

    def __init__(self, key: Key, revision: int, value: bytes) -> None:
        self.key = key
        self.revision = revision
        self.value = value
        self.note: Any = None
        self._shown: Obj | None = None

    def decode(self) -> Obj:
        """A dict of the caller's own, to change at will."""
        obj: Obj = _decode(self.value)
        return obj

    def peek(self) -> Obj:
        """The object to look at and not to change: others are shown the same dict. For the few that all ask for."""
        if self._shown is None:
            self._shown = self.decode()
        return self._shown


class Change:
    """A committed write. `lines` is where watchers share the encoded form of this change.

    `superseded` is the revision this write replaced; `previous` is its entry, while the history remembers it.
    """

    __slots__ = ("entry", "lines", "previous", "superseded", "type")

    def __init__(self, type: ChangeType, entry: Entry, previous: Entry | None) -> None:
        self.type = type
        self.entry = entry
        self.previous = previous
        self.superseded = previous.revision if previous is not None else None
        self.lines: dict[str, bytes] | None = None


class Remove(NamedTuple):
    """A guard's answer that deletes the object; `obj` is its last state, as watchers will see it."""

    obj: Obj


class Keep:
    """A guard's answer that leaves everything as it is."""


KEEP = Keep()
Guard = Callable[[Entry | None], "Obj | Remove | Keep"]


# What became of one of many writes: its entry, its refusal, or None where nothing speaks against it but the others.
Written = Entry | Exception | None


class StoreBroken(Exception):
    """The disk failed: nothing more is written, and what was in flight may or may not be durable."""


class Compacted(Exception):
    """The revision asked for is older than the history kept."""


class Store(Protocol):
    @property
    def revision(self) -> int:
        """The newest committed revision."""

    @property
    def compacted(self) -> int:
        """Changes up to this revision are no longer in the history."""

    @property
    def broken(self) -> bool: ...

    def get(self, key: Key) -> Entry | None:
        """The committed object."""

    def newest(self, key: Key) -> Entry | None:
        """The object as the next guard will see it: with writes that are sequenced but not yet durable."""

    def pending(self, resource: str, after: int = 0) -> list[Change]:
        """The newest write of every object that has one sequenced but not yet durable, oldest first; of those after a
        revision, at no more cost than there are."""

    def sequenced(self, resource: str) -> int:
        """The revision of the resource's newest write since the store was opened, durable or not; 0 without any."""

    def entries(self, resource: str, namespace: str = "", *, at: int | None = None) -> list[Entry]:
        """All committed objects ordered by namespace and name; `at` an older revision (Compacted when too old)."""

    def resources(self) -> list[str]:
        """The resources that have objects."""

    async def write(self, key: Key, guard: Guard) -> Entry:
        """Run the guard and commit its answer. Returns the object's entry (its last one, for Remove and Keep).

        What the guard raises is raised here, after everything it saw has become durable.
        """

    async def write_all(self, writes: Sequence[tuple[Key, Guard]], *, together: bool) -> list[Written]:
        """Run all guards in order and commit their answers in one transaction; a result for each.

        `together`: when one refuses, nothing is written. Each sees the state before all of them, so no key may occur
        twice. Otherwise each is a write of its own, that sees those before it.
        """

    def changes(self, resource: str, after: int, limit: int | None = None) -> Sequence[Change]:
        """Committed changes after a revision, oldest first. Raises Compacted when some are no longer known."""

    async def changed(self, resource: str, after: int) -> None:
        """Wait until there may be changes of the resource after a revision."""

    async def close(self) -> None:
        """Finish the writes in flight and let go of the files."""
