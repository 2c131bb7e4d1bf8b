"""What has changed since the last look: how a reader keeps a view of a resource without reading it all again."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hekla.apiserver.store.store import ChangeType, Compacted, Entry, Key, Store


class Following:
    def __init__(self, store: Store, resource: str) -> None:
        self._store = store
        self._resource = resource
        self._read: int | None = None

    def look(self) -> tuple[bool, Collection[tuple[Key, Entry | None]]]:
        """Whether to begin anew, and every committed object that is new, changed or (None) gone, oldest first."""
        read, self._read = self._read, self._store.revision
        if read is not None:
            try:
                changes = self._store.changes(self._resource, read)
                return False, [
                    (change.entry.key, None if change.type is ChangeType.DELETED else change.entry)
                    for change in changes
                ]
            except Compacted:
                pass
        return True, [(entry.key, entry) for entry in self._store.entries(self._resource)]

    def in_flight(self) -> Iterable[tuple[Key, Entry | None]]:
        """Objects whose newest write is sequenced but not yet committed."""
        return [
            (change.entry.key, None if change.type is ChangeType.DELETED else change.entry)
            for change in self._store.pending(self._resource)
        ]
