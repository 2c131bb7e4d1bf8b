"""One connection, with an end to everything: how long a request's head may be, and how long it and its body may take.

A client that sends a byte now and then, or a header without end, is let go; it holds nothing but its own connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_URL_BYTES = 8 * 1024
_HEADERS_BYTES = 16 * 1024
_HEADERS = 100
_HEAD_BYTES = _URL_BYTES + _HEADERS_BYTES


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that may pass before a connection's first request, until a head is whole, and then its body."""

    first_request: float = 90.0
    head: float = 10.0
    body: float = 60.0


class _Waiting(Enum):
    """What is waited for. Between requests uvicorn keeps the time."""

    FIRST_REQUEST = "first request"
    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"


class _TooMuch(Exception):
    """Raised into the parser, which then has the request refused."""


class Connection(HttpToolsProtocol):
    def __init__(self, *arguments: Any, patience: Patience | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        patience = patience or Patience()
        self._seconds = {
            _Waiting.FIRST_REQUEST: patience.first_request,
            _Waiting.HEAD: patience.head,
            _Waiting.BODY: patience.body,
        }
        self._waiting = _Waiting.NOTHING
        self._timed = _Waiting.NOTHING
        self._timer: asyncio.TimerHandle | None = None
        self._head = 0
        self._refusal = "400 Bad Request"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for(_Waiting.FIRST_REQUEST)
        self._keep_time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for(_Waiting.NOTHING)
        self._keep_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._waiting is _Waiting.HEAD and self._head > _HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large")
        self._keep_time()

    def _should_upgrade(self) -> bool:
        return self._should_upgrade_to_ws() and self._get_upgrade() in (b"websocket", b"spdy/3.1")

    def handle_websocket_upgrade(self) -> None:
        self._wait_for(_Waiting.NOTHING)
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        self._wait_for(_Waiting.HEAD)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.url) > _URL_BYTES:
            self._refusal = "414 URI Too Long"
            raise _TooMuch
        if len(self.headers) > _HEADERS or sum(len(n) + len(v) for n, v in self.headers) > _HEADERS_BYTES:
            self._refusal = "431 Request Header Fields Too Large"
            raise _TooMuch
        self._wait_for(_Waiting.BODY)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._wait_for(_Waiting.NOTHING)
        self._head = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _refuse(self, status: str) -> None:
        self._wait_for(_Waiting.NOTHING)
        lines = (f"HTTP/1.1 {status}", "content-length: 0", "connection: close", "", "")
        self.transport.write("\r\n".join(lines).encode())
        self.transport.close()

    def _wait_for(self, what: _Waiting) -> None:
        self._waiting = what

    def _keep_time(self) -> None:
        """Most requests come whole: a timer is set only for what is still awaited when the data at hand is read."""
        if self._waiting is self._timed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timed = self._waiting
        if self._waiting is not _Waiting.NOTHING:
            self._timer = asyncio.get_running_loop().call_later(self._seconds[self._waiting], self._too_slow)

    def _too_slow(self) -> None:
        if self._waiting is _Waiting.HEAD:
            self._refuse("408 Request Timeout")
            return
        # Whoever reads the body sees its client gone.
        self.transport.abort()
