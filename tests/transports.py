"""Connections to an API server that tests can look into, cut, and break at a chosen request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from hekla.api.batches import BATCH_PATH
from hekla.client.transport import Answer, StreamedAnswer, Transport
from hekla.errors import ApiError, Disconnected


class Relay:
    """Hands everything on as it is; others say what they do differently."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        return await self._inner.send(method, path, body=body, headers=headers, timeout=timeout)

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._inner.stream(method, path, headers=headers)

    async def close(self) -> None:
        await self._inner.close()


class Counting(Relay):
    """Counts requests, and may hide the batch form as other servers lack it."""

    def __init__(self, inner: Transport, *, batches: bool) -> None:
        super().__init__(inner)
        self._batches = batches
        self.sent: list[str] = []
        self.in_flight = self.most_in_flight = 0

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        self.sent.append(f"{method} {path}")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if path.startswith(BATCH_PATH) and not self._batches:
                return no_batches()
            return await super().send(method, path, body=body, headers=headers, timeout=timeout)
        finally:
            self.in_flight -= 1


class Severable(Relay):
    """Can be cut for good, in the middle of anything: from then on nothing gets through, in either direction."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.cut = asyncio.Event()

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        self.check()
        answer = await self._inner.send(method, path, body=body, headers=headers, timeout=timeout)
        self.check()
        return answer

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[StreamedAnswer]:
        self.check()
        async with self._inner.stream(method, path, headers=headers) as answer:
            yield answer

    def check(self) -> None:
        if self.cut.is_set():
            raise Disconnected("cut off")


async def _nothing(request: str) -> None:
    """What happens to a request that nobody disturbs."""


class Disturbed(Severable):
    """`before` is awaited with each request, "METHOD path", before it is sent, and may answer it; `after` before its
    answer is handed on. Both may raise."""

    def __init__(
        self,
        inner: Transport,
        before: Callable[[str], Awaitable[Answer | None]] = _nothing,
        after: Callable[[str], Awaitable[None]] = _nothing,
    ) -> None:
        super().__init__(inner)
        self.before = before
        self.after = after

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        answer = await self.before(f"{method} {path}")
        if answer is None:
            answer = await super().send(method, path, body=body, headers=headers, timeout=timeout)
            await self.after(f"{method} {path}")
        return answer


class BreaksAtWrite(Severable):
    """Counts writes and is cut at one of them: `before` it reaches the server, or after, with the answer lost.

    Events do not count: nothing is decided by them.
    """

    def __init__(self, inner: Transport, number: int = 0, *, before: bool = False, batches: bool = True) -> None:
        super().__init__(inner)
        self._batches = batches
        self.writes = 0
        self.number = number
        self.before = before

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        if path.startswith(BATCH_PATH) and not self._batches:
            return no_batches()
        self.check()
        breaks = False
        if method != "GET" and "/events" not in path:
            self.writes += 1
            breaks = self.writes == self.number
        if breaks and self.before:
            self.cut.set()
        self.check()
        answer = await self._inner.send(method, path, body=body, headers=headers, timeout=timeout)
        if breaks:
            self.cut.set()
        self.check()
        return answer


def refusal(error: ApiError) -> Answer:
    return Answer(error.code, {}, msgspec.json.encode(error.to_status()))


def no_batches() -> Answer:
    """What a server answers that has never heard of batches."""
    return Answer(404, {}, b"404 page not found")
