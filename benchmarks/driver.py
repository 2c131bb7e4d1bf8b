"""A client that costs next to nothing, so that what is measured is the server and the scheduler.

Requests are encoded before the clock starts, sent over kept connections and their answers looked at as bytes. Where
the server takes many objects in one request (as our controllers use it), so does the driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from hekla.api.batches import BATCH_PATH, OBJECT_BATCH
from hekla.api.kinds import POD, Kind, Obj, kind_of
from hekla.client.kubeconfig import Access, load_access
from hekla.client.transport import Request

T = TypeVar("T")

IN_FLIGHT = 64
BATCH = 100
_BOUND = b'"nodeName":"'
# Of many in one request, one that was not done: a batch's says so in its status, a joined request in its code.
_REFUSED = re.compile(rb'"status":\{"kind":"Status"|"code":[45]\d\d,')
_NAME = re.compile(rb'"metadata":\{"name":"([^"]+)"')
_REVISION = re.compile(rb'"resourceVersion":"(\d+)"')


class Counted:
    """How many changes a watch has shown; `reached` waits for a number of them."""

    def __init__(self) -> None:
        self.number = 0
        self._wanted = 0
        self._enough = asyncio.Event()

    def add(self) -> None:
        self.number += 1
        if self.number == self._wanted:
            self._enough.set()

    async def reached(self, number: int) -> None:
        self._wanted = number
        self._enough.clear()
        if self.number < number:
            await self._enough.wait()


class Driver:
    @classmethod
    async def of(cls, kubeconfig: Path) -> Driver:
        access = load_access([kubeconfig])
        return cls(access, await access.tokens.token() if access.tokens else "")

    def __init__(self, access: Access, token: str) -> None:
        url = urlsplit(access.server)
        self._socket = unquote(url.path) if url.scheme == "unix" else ""
        self._address = (url.hostname, url.port)
        self._tls: ssl.SSLContext | None = None
        if url.scheme == "https":
            self._tls = ssl.create_default_context()
            self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._head = "host: localhost\r\n" + (f"authorization: Bearer {token}\r\n" if token else "")
        self._batches: bool | None = None

    async def create(self, objs: Iterable[Obj]) -> None:
        """Create all, many at a time."""
        await self.send(await self.encode(objs))

    async def encode(self, objs: Iterable[Obj]) -> list[Request]:
        """The requests that create `objs`."""
        if await self.offers_batches():
            path = OBJECT_BATCH.path()
            return [Request("POST", path, msgspec.json.encode({"items": each})) for each in portions(objs, BATCH)]
        return [Request("POST", path_of(obj), msgspec.json.encode(obj)) for obj in objs]

    async def send(self, requests: list[Request]) -> None:
        waiting = iter(requests)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(IN_FLIGHT, len(requests))):
                tasks.create_task(self._worker(waiting))

    @contextlib.asynccontextmanager
    async def bound(self, count: int, *, besides: Collection[str] = ()) -> AsyncIterator[asyncio.Event]:
        """An event that is set once so many more pods have got a node, those named in `besides` not counted."""
        revision = await self._revision()
        enough = asyncio.Event()
        task = asyncio.create_task(self._count_bound(revision, count, besides, enough))
        try:
            yield enough
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def counted(self, kind: Kind) -> AsyncIterator[Counted]:
        """A watch of all objects of a kind, whose changes are counted and not looked at."""
        counted = Counted()
        task = asyncio.create_task(self._count(kind, await self._revision(kind), counted))
        try:
            yield counted
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _worker(self, waiting: Iterator[Request]) -> None:
        reader, writer = await self._connect()
        try:
            for request in waiting:
                status, answer = await self._request(reader, writer, request)
                if status >= 300 or _REFUSED.search(answer):
                    raise RuntimeError(f"{request}: {status} {answer[:500]!r}")
        finally:
            writer.close()

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request
    ) -> tuple[int, bytes]:
        self._write(writer, request)
        status, headers = await _read_head(reader)
        if b"content-length" in headers:
            return status, await reader.readexactly(int(headers[b"content-length"]))
        return status, b"".join([chunk async for chunk in _chunks(reader)])

    def _write(self, writer: asyncio.StreamWriter, request: Request) -> None:
        type_, length = request.headers.get("Content-Type", "application/json"), len(request.body)
        kind = f"content-type: {type_}\r\n" if request.body else ""
        head = f"{request.method} {request.path} HTTP/1.1\r\n{self._head}{kind}content-length: {length}\r\n\r\n"
        writer.write(head.encode() + request.body)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket:
            return await asyncio.open_unix_connection(self._socket, limit=1 << 24)
        return await asyncio.open_connection(*self._address, ssl=self._tls, limit=1 << 24)

    async def _get(self, path: str) -> tuple[int, bytes]:
        reader, writer = await self._connect()
        try:
            return await self._request(reader, writer, Request("GET", path))
        finally:
            writer.close()

    async def offers_batches(self) -> bool:
        if self._batches is None:
            self._batches = (await self._get(BATCH_PATH))[0] == 200
        return self._batches

    async def _revision(self, kind: Kind = POD) -> str:
        _, body = await self._get(kind.path() + "?limit=1")
        return str(msgspec.json.decode(body)["metadata"]["resourceVersion"])

    async def _count_bound(self, revision: str, count: int, besides: Collection[str], enough: asyncio.Event) -> None:
        """Watch all pods: the form a server encodes once for everybody. A watch that is cut is resumed."""
        bound: set[str] = set()
        while True:
            async with self._watched(POD, revision) as reader:
                async for line in _lines(reader):
                    revision = _first(_REVISION, line).decode()
                    if _BOUND in line:
                        name = _name(line)
                        if name not in besides:
                            bound.add(name)
                        if len(bound) >= count:
                            enough.set()

    async def _count(self, kind: Kind, revision: str, counted: Counted) -> None:
        """A watch that is cut is resumed."""
        while True:
            async with self._watched(kind, revision) as reader:
                async for line in _lines(reader):
                    revision = _first(_REVISION, line).decode()
                    counted.add()

    @contextlib.asynccontextmanager
    async def _watched(self, kind: Kind, revision: str) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await self._connect()
        try:
            self._write(writer, Request("GET", f"{kind.path()}?watch=1&resourceVersion={revision}"))
            status, _ = await _read_head(reader)
            if status != 200:
                raise RuntimeError(f"watch: {status}")
            yield reader
        finally:
            writer.close()


def _first(pattern: re.Pattern[bytes], line: bytes) -> bytes:
    found = pattern.search(line)
    if found is None:
        raise RuntimeError(f"not a change: {line[:500]!r}")
    return found[1]


def _name(line: bytes) -> str:
    found = _NAME.search(line)
    return found[1].decode() if found else str(msgspec.json.decode(line)["object"]["metadata"]["name"])


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    pending = b""
    async for chunk in _chunks(reader):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[bytes, bytes]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readline()
        size = int(line or b"0", 16)
        if not size:
            await reader.readline()  # the empty line that ends the answer: the next one follows on this connection
            return
        yield (await reader.readexactly(size + 2))[:-2]


def portions(all_: Iterable[T], size: int) -> Iterator[list[T]]:
    waiting = iter(all_)
    while portion := list(islice(waiting, size)):
        yield portion


def path_of(obj: Obj) -> str:
    kind = kind_of(obj)
    if kind is None:
        raise RuntimeError(f"no such kind: {obj.get('kind')}")
    return kind.path(obj["metadata"].get("namespace") if kind.namespaced else None)
