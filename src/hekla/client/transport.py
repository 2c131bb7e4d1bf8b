"""Bytes to and from an HTTP server. The sole importer of the HTTP client library.

A Transport sends one request and gives the answer whole (`send`) or as it comes (`stream`). Nothing here knows about
objects, retries or Kubernetes; `rest.py` does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hekla.errors import Disconnected

if TYPE_CHECKING:
    import aiohttp
    import yarl

_CONNECTIONS = 64
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
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
    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        """`path` carries the query. Raises Disconnected when no whole answer came."""

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        """An answer read as it comes, with no deadline of its own."""

    async def close(self) -> None: ...


class HttpTransport:
    """HTTP/1.1 over TCP (with TLS) or a unix socket, many requests in flight over kept-alive connections."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        socket_path: str | None = None,
        connections: int = _CONNECTIONS,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers or {})
        self._tls = tls
        self._socket_path = socket_path
        self._connections = connections
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        import aiohttp

        if self._requests is None:
            self._requests = self._session(self._connections)
        try:
            async with self._requests.request(
                method,
                self._url(path),
                data=body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS),
            ) as response:
                return Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Disconnected(f"{method} {self._base_url}{path.partition('?')[0]}: {_describe(error)}") from error

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[StreamedAnswer]:
        import aiohttp

        if self._streams is None:
            # Watches live long: they get connections of their own so that they never starve requests.
            self._streams = self._session(0)
        try:
            async with self._streams.request(
                method,
                self._url(path),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            ) as response:
                if response.status >= 300:
                    body = await response.read()
                    yield StreamedAnswer(response.status, response.headers, _nothing(), body)
                else:
                    yield StreamedAnswer(response.status, response.headers, response.content.iter_any())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Disconnected(f"{method} {self._base_url}{path.partition('?')[0]}: {_describe(error)}") from error

    async def close(self) -> None:
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        self._requests = self._streams = None
        # aiohttp closes TLS transports in the next loop iteration.
        await asyncio.sleep(0)

    def _session(self, limit: int) -> aiohttp.ClientSession:
        import aiohttp

        connector: aiohttp.BaseConnector
        if self._socket_path is not None:
            connector = aiohttp.UnixConnector(self._socket_path, limit=limit)
        else:
            connector = aiohttp.TCPConnector(limit=limit, ssl=self._tls if self._tls is not None else True)
        return aiohttp.ClientSession(
            connector=connector, headers=self._headers, auto_decompress=True, read_bufsize=1 << 18, trust_env=False
        )

    def _url(self, path: str) -> yarl.URL:
        from yarl import URL

        # The path is encoded already; encoding it again would turn %2F into %252F.
        return URL(self._base_url + path, encoded=True)


def load_http_library() -> None:
    """Import it now, while there is time, instead of at the first request."""
    import aiohttp  # noqa: F401


async def _nothing() -> AsyncIterator[bytes]:
    chunks: tuple[bytes, ...] = ()
    for chunk in chunks:
        yield chunk


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
