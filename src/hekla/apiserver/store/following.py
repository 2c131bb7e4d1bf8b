"""What has changed since the last look: how a reader keeps a view of a resource without reading it all again."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hekla.apiserver.store.store import Change, ChangeType, Compacted, Entry, Key, Store

# Every object that is new, changed or (None) gone, oldest first.
Changed = list[tuple[Key, Entry | None]]


class Following:
    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._resource = resource
        self._read: int | None = None

    def look(self) -> tuple[bool, Collection[tuple[Key, Entry | None]]]:
        """Whether to begin anew, and every committed object that has changed."""
        read, self._read = self._read, self._store.revision
        changes = _changes(self._store, self._resource, read)
        if changes is not None:
            return False, changes
        return True, [(entry.key, entry) for entry in self._store.entries(self._resource)]

    def in_flight(self) -> Iterable[tuple[Key, Entry | None]]:
        """Objects whose newest write is sequenced but not yet committed."""
        return _told(self._store.pending(self._resource))


class FollowingNewest:
    """The same for those who decide while a write is being sequenced: durable or not, and each change once, so that
    looking with every one of many writes costs no more than looking after the last."""

    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._resource = resource
        self._read: int | None = None

    def look(self) -> tuple[bool, Changed]:
        """Whether to begin anew, and every object that has changed."""
        read, newest = self._read, self._store.sequenced(self._resource)
        if read is not None and newest <= read:
            return False, []
        self._read = max(newest, self._store.revision)
        changes = _changes(self._store, self._resource, read)
        if changes is not None and read is not None:
            return False, changes + _told(self._store.pending(self._resource, read))
        return True, newest_entries(self._store, self._resource)


def newest_entries(store: Store, resource: str, namespace: str = "") -> Changed:
    """All objects, with the writes that are not committed yet."""
    committed: Changed = [(entry.key, entry) for entry in store.entries(resource, namespace)]
    in_flight = _told(store.pending(resource))
    return committed + [each for each in in_flight if not namespace or each[0].namespace == namespace]


def _changes(store: Store, resource: str, read: int | None) -> Changed | None:
    if read is None:
        return None
    try:
        return _told(store.changes(resource, read))
    except Compacted:
        return None


def _told(changes: Iterable[Change]) -> Changed:
    return [(change.entry.key, None if change.type is ChangeType.DELETED else change.entry) for change in changes]
