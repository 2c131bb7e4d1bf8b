"""Following a kind and reading only some of its fields.

A form is a msgspec Struct with the fields somebody wants; everything else is skipped while the bytes are read, and
nothing is kept here. For those with very many objects to watch: a pod read whole takes fifteen kilobytes.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from hekla.api.kinds import Kind
from hekla.api.meta import Key
from hekla.client.following import follow_source
from hekla.client.rest import Client
from hekla.client.views import ChangeIdentity, Identity, identify, identify_change
from hekla.client.watch import ChangeType, watch_all
from hekla.errors import Disconnected, error_from_status
from hekla.log import get_logger

log = get_logger("client")

_PAGE = 2000


class HasRevision(Protocol):
    @property
    def resource_version(self) -> str: ...


class Form(Protocol):
    """What a form must have."""

    @property
    def metadata(self) -> HasRevision: ...


F = TypeVar("F", bound=Form)


@dataclass(frozen=True, slots=True)
class Listed(Generic[F]):
    """A part of the whole state. What has been in no part by the last one no longer exists."""

    items: list[F]
    revision: str  # of the whole; only the last part has it
    first: bool
    odd: list[F] = field(default_factory=list)
    """What exists but does not fit the form: with its metadata alone."""

    @property
    def last(self) -> bool:
        return bool(self.revision)


@dataclass(frozen=True, slots=True)
class Moved(Generic[F]):
    """Changes that came together, in order. What was deleted and does not fit the form has its metadata alone."""

    changes: list[tuple[ChangeType, F]]


def follow_partly(
    client: Client, kind: Kind, form: type[F], *, rng: random.Random
) -> AsyncIterator[Listed[F] | Moved[F]]:
    """All of a kind in parts, then every change for ever, as `follow_source`."""
    return follow_source(_Parts(client, kind, _Reader(kind, form)), rng=rng)


@dataclass(frozen=True, slots=True)
class _Parts(Generic[F]):
    """A kind page by page, then its changes, read by a reader."""

    client: Client
    kind: Kind
    reader: _Reader[F]

    async def listed(self) -> AsyncIterator[tuple[Listed[F] | Moved[F], str]]:
        token, first = "", True
        while first or token:
            page = self.reader.page(await self.client.list_page(self.kind, limit=_PAGE, continue_token=token))
            token = page.metadata.continue_ or ""
            items, odd = self.reader.items(page)
            revision = "" if token else page.metadata.resource_version
            yield Listed(items, revision, first, odd), revision
            first = False

    async def watched(self, revision: str) -> AsyncGenerator[tuple[Listed[F] | Moved[F] | None, str], None]:
        async with aclosing(watch_all(self.client, self.kind, revision)) as batches:
            async for lines in batches:
                moved, revision = self.reader.changes(lines, revision)
                yield moved if moved.changes else None, revision


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, Generic[F]):
    type: str
    object: F


class _Reader(Generic[F]):
    def __init__(self, kind: Kind, form: type[F]) -> None:
        self._kind = kind
        self._named: set[Key] = set()
        self._page = msgspec.json.Decoder(_Page)
        self._item = msgspec.json.Decoder(form)
        # Types made at run time are beyond the type checker.
        self._line: msgspec.json.Decoder[_Line[F]] = msgspec.json.Decoder(_Line[form])  # type: ignore[valid-type]

    def page(self, body: bytes) -> _Page:
        try:
            return self._page.decode(body)
        except msgspec.DecodeError as error:
            raise Disconnected(f"list {self._kind.plural}: not a list: {body[:120]!r}") from error

    def items(self, page: _Page) -> tuple[list[F], list[F]]:
        """What could be read, and what could not."""
        items: list[F] = []
        odd: list[F] = []
        for raw in page.items or ():
            try:
                items.append(self._item.decode(raw))
            except msgspec.ValidationError as error:
                odd.append(self._odd(self._identify(raw), error))
        return items, odd

    def changes(self, lines: list[bytes], revision: str) -> tuple[Moved[F], str]:
        """What the lines say, and the revision they lead up to."""
        changes: list[tuple[ChangeType, F]] = []
        for line in filter(None, lines):
            try:
                read = self._line.decode(line)
            except msgspec.ValidationError as error:
                left_out = self._left_out(line)
                revision = left_out.object.metadata.resource_version
                if left_out.type != ChangeType.BOOKMARK:
                    item = self._odd(left_out.object, error)
                    changes += [(ChangeType.DELETED, item)] if left_out.type == ChangeType.DELETED else []
                continue
            except msgspec.DecodeError as error:
                raise Disconnected(f"watch {self._kind.plural}: cut off in the middle of a change") from error
            if read.type == "ERROR":
                raise error_from_status(msgspec.json.decode(line)["object"])
            revision = read.object.metadata.resource_version
            if read.type != ChangeType.BOOKMARK:
                changes.append((ChangeType(read.type), read.object))
        return Moved(changes), revision

    def _identify(self, raw: msgspec.Raw) -> Identity:
        try:
            return identify(raw)
        except msgspec.DecodeError as error:
            raise Disconnected(f"list {self._kind.plural}: not an object: {bytes(raw)[:120]!r}") from error

    def _left_out(self, line: bytes) -> ChangeIdentity:
        try:
            left_out = identify_change(line)
        except msgspec.DecodeError as error:
            raise Disconnected(f"watch {self._kind.plural}: not a change: {line[:120]!r}") from error
        if left_out.type == "ERROR":
            raise error_from_status(msgspec.json.decode(line)["object"])
        return left_out

    def _odd(self, identity: Identity, error: Exception) -> F:
        """An object that does not fit the form, told of in the log when it is seen for the first time."""
        key = identity.key
        if key not in self._named:
            self._named.add(key)
            log.warning(
                "object not understood", kind=self._kind.kind, name=key.name, namespace=key.namespace, error=error
            )
        return self._item.decode(msgspec.json.encode(identity))
