"""A transport with no socket: requests are handed to an ASGI application in the same event loop.

For simulation: with a memory store and a virtual clock the whole system then runs without real I/O, repeatably.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from hekla.client.transport import Answer, Request, StreamedAnswer
from hekla.errors import Disconnected

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class InProcessTransport:
    def __init__(self, application: Application, *, headers: Mapping[str, str] | None = None) -> None:
        self._application = application
        self._headers = {"Host": "localhost", **(headers or {})}

    async def send(self, request: Request) -> Answer:
        exchange = _Exchange(request.body)
        try:
            async with asyncio.timeout(request.timeout):
                await self._application(self._scope(request), exchange.receive, exchange.send)
        except TimeoutError as error:
            raise Disconnected(f"{request.place}: no answer in time") from error
        chunks = []
        while (chunk := exchange.chunks.get_nowait()) is not None:
            chunks.append(chunk)
        return Answer(exchange.status, exchange.headers, b"".join(chunks))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedAnswer]:
        exchange = _Exchange(request.body)
        chunks = exchange.read(asyncio.get_running_loop().time() + request.timeout)
        serving = asyncio.create_task(self._serve(self._scope(request), exchange))
        try:
            await exchange.started.wait()
            if exchange.status >= 300:
                body = b"".join([chunk async for chunk in chunks])
                yield StreamedAnswer(exchange.status, exchange.headers, chunks, body)
            else:
                yield StreamedAnswer(exchange.status, exchange.headers, chunks)
        finally:
            exchange.gone.set()
            serving.cancel()
            # Waited for, not awaited: its cancellation must not be taken for one of ours, nor ours for its own.
            await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()

    async def close(self) -> None:
        """Nothing is held open."""

    async def _serve(self, scope: Message, exchange: _Exchange) -> None:
        try:
            await self._application(scope, exchange.receive, exchange.send)
        finally:
            exchange.finish()

    def _scope(self, request: Request) -> Message:
        raw_path, _, query = request.path.partition("?")
        sent = {**self._headers, **request.headers}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": raw_path,
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": None,
            "server": ("localhost", None),
        }


class _Exchange:
    """One request and its answer, between two coroutines."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.status = 500
        self.headers: dict[str, str] = {}
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.started = asyncio.Event()
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for raw, value in message.get("headers") or ():
                name, text = raw.decode().title(), value.decode()
                self.headers[name] = f"{self.headers[name]}, {text}" if name in self.headers else text
            self.started.set()
            return
        if message.get("body"):
            self.chunks.put_nowait(message["body"])
        if not message.get("more_body"):
            self.finish()

    def finish(self) -> None:
        self.chunks.put_nowait(None)
        self.started.set()

    async def read(self, deadline: float) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout_at(None if deadline == math.inf else deadline):
                    chunk = await self.chunks.get()
            except TimeoutError as error:
                raise Disconnected("no answer in time") from error
            if chunk is None:
                return
            yield chunk
