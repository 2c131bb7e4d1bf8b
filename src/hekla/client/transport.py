"""Bytes to and from an HTTP server: requests over kept-alive connections, streams over connections of their own.

A Transport takes a Request and gives the answer whole (`send`) or as it comes (`stream`). Nothing here knows about
objects, retries or Kubernetes; `rest.py` does.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol
from urllib.parse import quote, urlsplit

import msgspec

from hekla.client.breath import Breath
from hekla.client.http1 import Broken, Connection
from hekla.client.tokens import TokenSource
from hekla.client.turns import Turns
from hekla.errors import Disconnected

USUAL_SECONDS = 60.0
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_READS = frozenset({"GET", "HEAD"})
_CONNECTIONS = 64
_CONNECT_SECONDS = 10.0
# Between us and a server may be what forgets connections without a word: then a watch would hear nothing for minutes.
_SILENT_SECONDS = 30.0
_PROBES = 3
# Servers close connections nobody uses; one that was used a moment ago is not about to be closed.
_KEPT_SECONDS = 30.0
_UNAUTHORIZED = 401
_HEADERS_REMEMBERED = 64
_PORTS = {"http": 80, "https": 443}
_NOT_IN_A_PATH = re.compile(r"[^!-~]")


def _at_any_time() -> None:
    """Most requests may go whenever their turn comes."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """What is asked, complete. `path` carries the query; `timeout` is for the whole answer, also of a stream.

    `permit` is called when the request is about to go, which may be long after it was handed over: it raises where
    that may no longer be.
    """

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = _NO_HEADERS
    timeout: float = USUAL_SECONDS
    permit: Callable[[], None] = _at_any_time

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def place(self) -> str:
        """Method and path, without the query."""
        return f"{self.method} {self.path.partition('?')[0]}"

    @property
    def writes(self) -> bool:
        return self.method not in _READS


class Answer(msgspec.Struct, frozen=True, gc=False):
    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer whose body is still coming. `body` is the whole body where the status is an error."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    body: bytes = b""


class Transport(Protocol):
    async def send(self, request: Request) -> Answer:
        """Raises Disconnected when no whole answer came."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedAnswer]:
        """An answer read as it comes."""

    async def close(self) -> None: ...


class HttpTransport:
    """HTTP/1.1 over TCP (with TLS) or a unix socket. Requests get their turn in the order in which they came."""

    def __init__(
        self,
        base_url: str,
        *,
        tokens: TokenSource | None = None,
        tls: ssl.SSLContext | None = None,
        server_name: str = "",
        socket_path: str | None = None,
        connections: int = _CONNECTIONS,
        silent_seconds: float = _SILENT_SECONDS,
    ) -> None:
        """`server_name` is the name the server's certificate must carry, where it is not the one in the URL.

        A connection is given up when its other end gives no sign of life for `silent_seconds`, asked or not.
        """
        url = urlsplit(base_url)
        self._base_url = base_url.rstrip("/")
        self._host, self._port = url.hostname or "localhost", url.port or _PORTS[url.scheme]
        self._prefix = url.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if url.scheme == "https" else None
        self._server_name = server_name
        self._socket_path = socket_path
        self._silent_seconds = silent_seconds
        self._tokens = tokens
        self._fixed = _line("Host", url.netloc.rpartition("@")[2])
        self._turns = Turns(connections)
        self._breath = Breath(connections, lambda: self._turns.awaited)
        self._kept: list[Connection] = []
        self._open: set[Connection] = set()

    async def send(self, request: Request) -> Answer:
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + request.timeout
            if not self._turns.take_at_once():
                self._breath.crowd()
                await self._turns.take(deadline)
            began = loop.time()
            try:
                return await self._send_with_token(request, deadline)
            finally:
                self._breath.answered(loop.time() - began)
                self._turns.give_back()
        except (OSError, TimeoutError) as error:
            raise self._disconnected(request, error) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedAnswer]:
        # Streams live long: they get connections of their own so that they never starve requests.
        try:
            deadline = asyncio.get_running_loop().time() + request.timeout
            connection = await self._connect(deadline)
            try:
                token = await self._token(deadline)
                connection.request(self._encode(request, token), deadline=deadline)
                await connection.head()
                body = await connection.whole() if connection.status >= 300 else b""
                if connection.status == _UNAUTHORIZED and self._tokens:
                    # Who asks again will do so with what there is then.
                    await self._token(deadline, refused=token)
                yield StreamedAnswer(connection.status, connection.headers, connection.chunks(), body)
            finally:
                self._let_go(connection)
        except (OSError, TimeoutError) as error:
            raise self._disconnected(request, error) from error

    async def close(self) -> None:
        self._kept.clear()
        while self._open:
            self._let_go(next(iter(self._open)))
        # Connections are closed in the next turn of the loop.
        await asyncio.sleep(0)

    async def _send_with_token(self, request: Request, deadline: float) -> Answer:
        if self._tokens is None:
            return await self._ask(request, "", deadline)
        token = self._tokens.at_hand()
        if token is None:
            token = await self._token(deadline)
        answer = await self._ask(request, token, deadline)
        if answer.status == _UNAUTHORIZED:
            # Nothing was done. The token may have been replaced since we read it.
            newer = await self._token(deadline, refused=token)
            if newer != token:
                return await self._ask(request, newer, deadline)
        return answer

    async def _token(self, deadline: float, refused: str = "") -> str:
        if self._tokens is None:
            return ""
        async with _until(deadline):
            return await self._tokens.token(refused)

    async def _ask(self, request: Request, token: str, deadline: float) -> Answer:
        data = self._encode(request, token)
        try:
            return await self._exchange(request, data, self._take_kept() or await self._connect(deadline), deadline)
        except Broken as error:
            # The server let go of a connection while it was not in use. To read again is always safe.
            if request.writes or not error.untouched:
                raise
            return await self._exchange(request, data, await self._connect(deadline), deadline)

    async def _exchange(self, request: Request, data: bytes, connection: Connection, deadline: float) -> Answer:
        try:
            request.permit()
            connection.request(data, deadline=deadline)
            body = await connection.whole()
            return Answer(connection.status, connection.headers, body)
        finally:
            self._keep(connection)

    def _take_kept(self) -> Connection | None:
        """The connection used last: the others may then grow old and be closed."""
        now = asyncio.get_running_loop().time()
        while self._kept:
            connection = self._kept.pop()
            if connection.reusable and now - connection.idle_since < _KEPT_SECONDS:
                return connection
            self._let_go(connection)
        return None

    def _keep(self, connection: Connection) -> None:
        if connection.reusable and connection in self._open:
            connection.idle_since = asyncio.get_running_loop().time()
            self._kept.append(connection)
        else:
            # Its answer is still to come (the request was cancelled), or was its last.
            self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abandon()

    async def _connect(self, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(min(deadline, loop.time() + _CONNECT_SECONDS)):
            if self._socket_path is not None:
                _, connection = await loop.create_unix_connection(Connection, self._socket_path)
            else:
                name = self._server_name or None
                carried, connection = await loop.create_connection(
                    Connection, self._host, self._port, ssl=self._tls, server_hostname=name if self._tls else None
                )
                _ask_for_signs_of_life(carried.get_extra_info("socket"), self._silent_seconds)
        self._open.add(connection)
        return connection

    def _encode(self, request: Request, token: str) -> bytes:
        method, path, body, headers = request.method, request.path, request.body, request.headers
        if _NOT_IN_A_PATH.search(path):
            # What comes from people may hold anything; the rest is encoded already, and must not be encoded twice.
            path = quote(path, safe="%/?&=:;,+@!$'()*[]~")
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
        lines = _lines(*headers.items()) + (_line("Authorization", f"Bearer {token}") if token else "")
        return f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._fixed}{lines}{length}\r\n".encode() + body

    def _disconnected(self, request: Request, error: BaseException) -> Disconnected:
        path = request.path.partition("?")[0]
        return Disconnected(f"{request.method} {self._base_url}{path}: {_describe(error)}")


@lru_cache(maxsize=_HEADERS_REMEMBERED)
def _lines(*headers: tuple[str, str]) -> str:
    """The same few come with every request."""
    return "".join(_line(name, value) for name, value in headers)


def _line(name: str, value: str) -> str:
    line = f"{name}: {value}\r\n"
    if line.count("\n") + line.count("\r") != 2:
        raise ValueError("a header holds a line break")
    return line


def _ask_for_signs_of_life(connected: socket.socket, silent_seconds: float) -> None:
    """Have the kernel give a connection up: an idle one by probes, another when what was sent is not confirmed."""
    pause = max(int(silent_seconds / (_PROBES + 1)), 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, pause)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, pause)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(silent_seconds * 1000))


def _until(deadline: float) -> asyncio.Timeout:
    return asyncio.timeout_at(None if deadline == math.inf else deadline)


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
