"""Following a kind from a revision: changes in order, resumed across broken connections.

`watch` is one connection; `watch_many` is the same in portions. `follow` is the endless form informers use.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.meta import Key
from hekla.client.following import follow_source
from hekla.client.rest import Client
from hekla.client.views import View, decode_change, identify_change
from hekla.errors import ApiError, Disconnected, error_from_status
from hekla.log import get_logger

log = get_logger("client")

_WATCH_SECONDS = 300
_GRACE_SECONDS = 60


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


# Many times as fast as asking the enumeration.
_TYPES = {str(type_): type_ for type_ in ChangeType}


class Change(msgspec.Struct, frozen=True, gc=False):
    """`odd`: the object does not fit the view and holds only which one it is; it was deleted."""

    type: ChangeType
    obj: Obj
    odd: bool = False


@dataclass(frozen=True, slots=True)
class Relisted:
    """The whole state at a revision: what is not in it no longer exists."""

    items: list[Obj]
    revision: int
    odd: frozenset[Key] = frozenset()
    """What does not fit the view: it exists, but is not among the items."""


async def watch(
    client: Client,
    kind: Kind,
    namespace: str | None = None,
    *,
    resource_version: str,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[Change]:
    """Changes after `resource_version`, until the server ends the stream. Raises Expired when that is too old."""
    stream = watch_many(
        client,
        kind,
        namespace,
        resource_version=resource_version,
        label_selector=label_selector,
        field_selector=field_selector,
    )
    async with aclosing(stream):
        async for changes in stream:
            for change in changes:
                yield change


async def watch_many(
    client: Client,
    kind: Kind,
    namespace: str | None = None,
    *,
    resource_version: str,
    label_selector: str = "",
    field_selector: str = "",
    view: View | None = None,
) -> AsyncGenerator[list[Change], None]:
    """`watch`, with the changes that came together at once."""
    query = _query(resource_version, label_selector, field_selector)
    named: set[Key] = set()
    async with aclosing(_watched_lines(client, f"{kind.path(namespace)}?{query}")) as batches:
        async for lines in batches:
            changes, trouble = _read(kind, lines, view, named)
            if changes:
                yield changes
            if trouble is not None:
                raise trouble


def watch_all(client: Client, kind: Kind, resource_version: str) -> AsyncGenerator[list[bytes], None]:
    """The changes of all objects of a kind as the server sends them."""
    return _watched_lines(client, f"{kind.path()}?{_query(resource_version)}")


def _watched_lines(client: Client, path: str) -> AsyncGenerator[list[bytes], None]:
    # The server ends the stream itself; one that does not is a connection whose other end is gone.
    return client.stream_many_lines(path, timeout=_WATCH_SECONDS + _GRACE_SECONDS)


def _query(resource_version: str, label_selector: str = "", field_selector: str = "") -> str:
    parameters = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(_WATCH_SECONDS),
        "labelSelector": label_selector,
        "fieldSelector": field_selector,
    }
    return urlencode({key: value for key, value in parameters.items() if value})


def _read(kind: Kind, lines: list[bytes], view: View | None, named: set[Key]) -> tuple[list[Change], Exception | None]:
    """The changes up to a line that is an error, or half of one, and what that line means.

    An object that does not fit the view is left out, and told of unless it is among the `named`.
    """
    changes: list[Change] = []
    for line in lines:
        if not line:
            continue
        try:
            change = _change(kind, line, view, named)
        except msgspec.DecodeError:
            return changes, Disconnected(f"watch {kind.plural}: cut off in the middle of a change")
        except ApiError as error:
            return changes, error
        if change is not None:
            changes.append(change)
    return changes, None


def _change(kind: Kind, line: bytes, view: View | None, named: set[Key]) -> Change | None:
    try:
        change = decode_change(line, view)
    except msgspec.ValidationError as error:
        odd = identify_change(line)
        key = odd.object.key
        if key not in named:
            named.add(key)
            log.warning("object not understood", kind=kind.kind, name=key.name, namespace=key.namespace, error=error)
        return Change(ChangeType.DELETED, msgspec.to_builtins(odd.object), odd=True) if odd.type == "DELETED" else None
    if change.type == "ERROR":
        raise error_from_status(change.object)
    return Change(_TYPES[change.type], change.object)


def follow(
    client: Client,
    kind: Kind,
    namespace: str | None = None,
    *,
    label_selector: str = "",
    field_selector: str = "",
    view: View | None = None,
    rng: random.Random,
    on_trouble: Callable[[Exception], None] | None = None,
) -> AsyncIterator[list[Change] | Relisted]:
    """First a Relisted, then every change for ever, as `follow_source`."""
    source = _Whole(client, kind, namespace, label_selector, field_selector, view)
    return follow_source(source, rng=rng, on_trouble=on_trouble)


@dataclass(frozen=True, slots=True)
class _Whole:
    """Everything that is asked for in one list, then its changes."""

    client: Client
    kind: Kind
    namespace: str | None
    label_selector: str
    field_selector: str
    view: View | None

    async def listed(self) -> AsyncIterator[tuple[list[Change] | Relisted, str]]:
        listed = await self.client.list(
            self.kind,
            self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            view=self.view,
        )
        yield Relisted(listed.items, int(listed.resource_version or 0), listed.odd), listed.resource_version

    async def watched(self, revision: str) -> AsyncGenerator[tuple[list[Change] | Relisted | None, str], None]:
        stream = watch_many(
            self.client,
            self.kind,
            self.namespace,
            resource_version=revision,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            view=self.view,
        )
        async with aclosing(stream):
            async for changes in stream:
                real = [change for change in changes if change.type is not ChangeType.BOOKMARK]
                yield real or None, changes[-1].obj["metadata"]["resourceVersion"]
