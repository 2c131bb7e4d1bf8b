"""Watches: the changes of a resource as lines, from a revision on, for as long as the client listens."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.listing import parse_revision
from hekla.apiserver.presenting import Presentation
from hekla.apiserver.request import Request
from hekla.apiserver.resource import Resource
from hekla.apiserver.selecting import Selection
from hekla.apiserver.store.store import Change, ChangeType, Compacted, Entry, Store
from hekla.errors import Expired, Invalid

# A watcher far behind is served in portions: others get their turn in between.
_CHANGES_AT_ONCE = 500
_BOOKMARK_SECONDS = 60.0
_SHORTEST_SECONDS = 1800
_INITIAL_END = "k8s.io/initial-events-end"
_encode = msgspec.json.Encoder().encode


def start_watch(
    store: Store, selection: Selection, presentation: Presentation, request: Request, rng: random.Random
) -> AsyncIterator[bytes]:
    """Check what was asked for now; the lines come from the iterator."""
    initial = request.query.get("sendInitialEvents")
    match = request.query.get("resourceVersionMatch", "")
    if initial is not None and match != "NotOlderThan":
        raise Invalid(
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires '
            "setting resourceVersionMatch to NotOlderThan",
            details={
                "group": "meta.k8s.io",
                "kind": "ListOptions",
                "causes": [
                    {
                        "reason": "FieldValueForbidden",
                        "message": "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                        "field": "resourceVersionMatch",
                    }
                ],
            },
        )
    watch = _Watch(
        store,
        selection,
        presentation,
        revision=parse_revision(request.query.get("resourceVersion", "")),
        send_initial=initial == "true",
        bookmarks=request.flag("allowWatchBookmarks"),
        seconds=request.number("timeoutSeconds") or rng.uniform(_SHORTEST_SECONDS, 2 * _SHORTEST_SECONDS),
    )
    return watch.lines()


class _Watch:
    def __init__(
        self,
        store: Store,
        selection: Selection,
        presentation: Presentation,
        *,
        revision: int,
        send_initial: bool,
        bookmarks: bool,
        seconds: float,
    ) -> None:
        self._store = store
        self._selection = selection
        self._presentation = presentation
        self._revision = revision
        self._send_initial = send_initial
        self._bookmarks = bookmarks
        self._seconds = seconds

    async def lines(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        if self._send_initial or self._revision == 0:
            yield self._initial()
        while True:
            try:
                changes = self._store.changes(self._selection.resource.storage, self._revision, _CHANGES_AT_ONCE)
            except Compacted:
                yield self._too_old()
                return
            chunk = b"".join(filter(None, map(self._line, changes)))
            if chunk:
                yield chunk
            remaining = end - loop.time()
            if remaining <= 0:
                return
            if changes:
                await asyncio.sleep(0)
                continue
            # Nothing more of this resource up to here: bookmarks may say so.
            self._revision = max(self._revision, self._store.revision)
            try:
                async with asyncio.timeout(min(remaining, _BOOKMARK_SECONDS) if self._bookmarks else remaining):
                    await self._store.changed(self._selection.resource.storage, self._revision)
            except TimeoutError:
                if self._bookmarks:
                    yield self._bookmark({})

    def _initial(self) -> bytes:
        self._revision = self._store.revision
        resource = self._selection.resource
        entries = self._store.entries(resource.storage, self._selection.namespace)
        lines = [self._event("ADDED", entry.value) for entry in entries if self._selection.matches(entry)]
        if self._send_initial and self._bookmarks:
            lines.append(self._bookmark({_INITIAL_END: "true"}))
        return b"".join(lines)

    def _line(self, change: Change) -> bytes:
        """The line for a change, or nothing. An object entering a selection is ADDED, one leaving it is DELETED."""
        self._revision = change.entry.revision
        selection = self._selection
        if selection.everything:
            if selection.namespace and change.entry.key.namespace != selection.namespace:
                return b""
            return self._shared(change)
        previous = change.previous
        was = previous is not None and selection.matches(previous)
        if change.type is ChangeType.DELETED:
            return self._shared(change) if was else b""
        if selection.matches(change.entry):
            if was or change.type is ChangeType.ADDED:
                return self._shared(change)
            return self._event("ADDED", change.entry.value)
        if was and previous is not None:
            return self._event("DELETED", _at_revision(previous, change.entry.revision))
        return b""

    def _shared(self, change: Change) -> bytes:
        """Encoded once for all watchers that see objects as they are."""
        if self._presentation.name == "table":
            return self._event(change.type.value, change.entry.value)
        if change.lines is None:
            change.lines = {}
        line = change.lines.get(self._presentation.name)
        if line is None:
            line = change.lines[self._presentation.name] = self._event(change.type.value, change.entry.value)
        return line

    def _event(self, type_: str, value: bytes) -> bytes:
        return b"".join((b'{"type":"', type_.encode(), b'","object":', self._presentation.watched(value), b"}\n"))

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: Obj = {"resourceVersion": str(self._revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = _typed(self._selection.resource, metadata)
        if self._presentation.name == "table":
            row = {"cells": [], "object": obj}
            obj = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(self._revision)},
                "columnDefinitions": None,
                "rows": [row],
            }
        elif self._presentation.name == "metadata":
            obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return _encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _too_old(self) -> bytes:
        error = Expired(f"too old resource version: {self._revision} ({self._store.compacted})")
        return _encode({"type": "ERROR", "object": error.to_status()}) + b"\n"


def _typed(resource: Resource, metadata: Obj) -> Obj:
    return {"kind": resource.kind.kind, "apiVersion": resource.kind.api_version, "metadata": metadata}


def _at_revision(entry: Entry, revision: int) -> bytes:
    obj = entry.decode()
    obj["metadata"]["resourceVersion"] = str(revision)
    return _encode(obj)
