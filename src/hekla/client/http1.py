"""One HTTP/1.1 connection, seen from the client: a request out, an answer in, whole or as it comes.

Written for what this project sends thousands of: small requests over kept connections. The parser is httptools'. Left
out is what no API server asks of a client: redirects, cookies, compression, proxies.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httptools

from hekla.client.alarm import Alarm

# A reader that does not keep up makes the sender wait, not this process grow.
_BUFFERED_BYTES = 4 << 20


class Broken(OSError):
    """The connection ended before the answer did. `untouched`: not a byte of it had come."""

    def __init__(self, why: str, *, untouched: bool = False) -> None:
        super().__init__(why)
        self.untouched = untouched


class Headers(Mapping[str, str]):
    """Of an answer; one that was sent several times has its values joined. Read when somebody looks: hardly ever."""

    __slots__ = ("_raw", "_read")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._read: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, str]:
        if self._read is None:
            self._read = {}
            for raw, value in self._raw:
                name, text = raw.decode("latin-1").title(), value.decode(errors="replace")
                self._read[name] = f"{self._read[name]}, {text}" if name in self._read else text
        return self._read


class Connection(asyncio.Protocol):
    """Carries one exchange at a time: `request`, then `whole` or `head` and `chunks`."""

    def __init__(self) -> None:
        self._deadline = math.inf
        self._overdue = False
        self._alarm = Alarm(self._look_at_time)
        self.idle_since = 0.0
        self.status = 0
        self._transport: Any = None
        self._parser: Any = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: deque[bytes] = deque()
        self._buffered = 0
        self._streams = False
        self._begun = False
        self._complete = True
        self._keeps = True
        self._lost: Broken | None = None
        self._wake: asyncio.Future[None] | None = None

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent: the last answer was read to its end, and both sides are still there."""
        return self._complete and self._keeps and self._lost is None and not self._transport.is_closing()

    @property
    def headers(self) -> Headers:
        """Of the answer at hand."""
        return Headers(self._headers)

    def request(self, data: bytes, *, deadline: float = math.inf) -> None:
        """Send a request, complete with its body. The connection must be reusable.

        Who waits for the answer longer than until `deadline`, in the loop's time, gets a TimeoutError.
        """
        self._keep_time(deadline)
        self.status = 0
        self._parser = httptools.HttpResponseParser(self)
        self._headers = []
        self._body.clear()
        self._buffered = 0
        self._streams = self._begun = self._complete = self._overdue = False
        self._transport.write(data)

    async def whole(self) -> bytes:
        """The body, when all of it has come."""
        # Nothing is taken from it meanwhile, so it is not held up either.
        self._streams = False
        if self._buffered > _BUFFERED_BYTES:
            self._buffered = 0
            self._transport.resume_reading()
        while not self._complete:
            await self._progress()
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    async def head(self) -> None:
        """Wait for `status` and `headers`; the body may then be read as it comes."""
        self._streams = True
        while not self.status:
            await self._progress()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while self._body:
                chunk = b"".join(self._body)
                self._body.clear()
                if self._buffered > _BUFFERED_BYTES:
                    self._transport.resume_reading()
                self._buffered = 0
                yield chunk
            if self._complete:
                return
            await self._progress()

    def abandon(self) -> None:
        self._deadline = math.inf
        self._alarm.stop()
        if self._transport is not None:
            self._transport.abort()

    def _keep_time(self, deadline: float) -> None:
        self._deadline = deadline
        if deadline != math.inf:
            self._alarm.set(deadline)

    def _look_at_time(self) -> None:
        if self._complete or self._deadline == math.inf:
            return
        if asyncio.get_running_loop().time() < self._deadline:
            self._keep_time(self._deadline)
        else:
            self._overdue = True
            self._tell()

    async def _progress(self) -> None:
        """Wait until something has come. Raises Broken when nothing will, and TimeoutError when it is too late."""
        if self._lost is not None:
            raise self._lost
        if self._overdue:
            raise TimeoutError
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def _tell(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # ---- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._complete and self.status and self._ends_with_connection():
            self._complete = True
        if self._lost is None:
            self._lost = Broken(str(exc) if exc else "the server closed the connection", untouched=not self._begun)
        self._tell()

    def data_received(self, data: bytes) -> None:
        if self._complete:
            # Nothing was asked: whatever this is, it answers no request of ours.
            self._transport.abort()
            return
        self._begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._lost = Broken(f"the answer is not HTTP: {error}")
            self._transport.abort()
            self._tell()

    # ---- what the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            # An interim answer; the real one follows.
            self._headers = []
            return
        self.status = status
        if self._streams:
            self._tell()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        if self._streams:
            before, self._buffered = self._buffered, self._buffered + len(body)
            if before <= _BUFFERED_BYTES < self._buffered:
                self._transport.pause_reading()
            self._tell()

    def on_message_complete(self) -> None:
        if not self.status:
            return
        self._complete = True
        self._keeps = bool(self._parser.should_keep_alive())
        self._tell()

    def _ends_with_connection(self) -> bool:
        """An answer that announces neither its length nor pieces lasts until the connection ends."""
        names = {name.lower() for name, _ in self._headers}
        return not names & {b"content-length", b"transfer-encoding"}
