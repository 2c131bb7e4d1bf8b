"""Connections to an API server that tests can look into, cut, stall, and break at a chosen request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from hekla.api.batches import BATCH_PATH
from hekla.client.transport import Answer, Request, StreamedAnswer, Transport
from hekla.errors import ApiError, Conflict, Disconnected, InternalError


def decides(request: Request) -> bool:
    """Whether it writes something that others act on: Events are for people."""
    return request.writes and "/events" not in request.path


class Relay:
    """Hands everything on as it is; others say, in `send` and `stream`, what they do differently.

    Without `batches` the server looks like one that has never heard of them.
    """

    def __init__(self, inner: Transport, *, batches: bool = True) -> None:
        self._inner = inner
        self._batches = batches

    def hides(self, request: Request) -> bool:
        return request.path.startswith(BATCH_PATH) and not self._batches

    async def send(self, request: Request) -> Answer:
        if self.hides(request):
            return Answer(404, {}, b"404 page not found")
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedAnswer]:
        async with self._inner.stream(request) as answer:
            yield replace(answer, chunks=self.passed_on(request.path, answer.chunks))

    def passed_on(self, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What comes through of a stream."""
        return chunks

    async def close(self) -> None:
        await self._inner.close()


class Counting(Relay):
    """Notes requests, and how many are under way at a time."""

    def __init__(self, inner: Transport, *, batches: bool = True) -> None:
        super().__init__(inner, batches=batches)
        self.sent: list[str] = []
        self.in_flight = self.most_in_flight = 0

    async def send(self, request: Request) -> Answer:
        self.sent.append(str(request))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await super().send(request)
        finally:
            self.in_flight -= 1


class Cutting(Relay):
    """Ends every stream after so many bytes, in the middle of whatever is there."""

    def __init__(self, inner: Transport, after: int) -> None:
        super().__init__(inner)
        self._after = after
        self.lists = self.streams = 0

    async def send(self, request: Request) -> Answer:
        self.lists += not request.writes
        return await super().send(request)

    async def passed_on(self, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.streams += 1
        left = self._after
        async for chunk in chunks:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return


class Severable(Relay):
    """Can be cut for good, in the middle of anything: from then on nothing gets through, in either direction."""

    def __init__(self, inner: Transport, *, batches: bool = True) -> None:
        super().__init__(inner, batches=batches)
        self.cut = asyncio.Event()

    async def send(self, request: Request) -> Answer:
        self.check()
        answer = await super().send(request)
        self.check()
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedAnswer]:
        self.check()
        async with super().stream(request) as answer:
            yield answer

    def check(self) -> None:
        if self.cut.is_set():
            raise Disconnected("cut off")


async def nothing(request: str) -> None:
    """What happens to a request that nobody disturbs."""


class Disturbed(Severable):
    """`before` is awaited with each request, "METHOD path", before it is sent, and may answer it; `after` before its
    answer is handed on. Both may raise."""

    def __init__(
        self,
        inner: Transport,
        before: Callable[[str], Awaitable[Answer | None]] = nothing,
        after: Callable[[str], Awaitable[None]] = nothing,
    ) -> None:
        super().__init__(inner)
        self.before = before
        self.after = after

    async def send(self, request: Request) -> Answer:
        answer = await self.before(str(request))
        if answer is None:
            answer = await super().send(request)
            await self.after(str(request))
        return answer


class Stalling(Severable):
    """Streams whose path has `part` in it stand still while it is `stalled`."""

    def __init__(self, inner: Transport, part: str) -> None:
        super().__init__(inner)
        self._part = part
        self._flows = asyncio.Event()
        self._flows.set()

    def stall(self) -> None:
        self._flows.clear()

    def flow(self) -> None:
        self._flows.set()

    async def passed_on(self, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if self._part in path:
                await self._flows.wait()
            yield chunk


class BreaksAtWrite(Severable):
    """Counts what decides something, and is cut `before` one of these reaches the server, or after, its answer lost."""

    def __init__(self, inner: Transport, number: int = 0, *, before: bool = False, batches: bool = True) -> None:
        super().__init__(inner, batches=batches)
        self.writes = 0
        self.number = number
        self.before = before

    async def send(self, request: Request) -> Answer:
        self.check()
        self.writes += decides(request)
        breaks = decides(request) and self.writes == self.number
        if breaks and self.before:
            self.cut.set()
        answer = await super().send(request)
        if breaks:
            self.cut.set()
        self.check()
        return answer


class Line(Relay):
    """Notes what was written; `fault` says of a write, "METHOD path", whether to "cut" (it never arrives), "refuse",
    call a "conflict" or "lose" (its answer) it. After `cut_after` writes nothing is sent any more."""

    def __init__(self, inner: Transport, *, batches: bool = True) -> None:
        super().__init__(inner, batches=batches)
        self.written: list[str] = []
        self.fault: Callable[[str], str] = lambda write: ""
        self.cut_after: int | None = None

    async def send(self, request: Request) -> Answer:
        fault = self.fault(request.place) if request.writes else ""
        if self.is_cut or fault == "cut":
            raise Disconnected("cut off")
        if fault == "refuse":
            return refusal(InternalError("no"))
        if fault == "conflict":
            return refusal(Conflict("it has changed"))
        answer = await super().send(request)
        if request.writes:
            self.written.append(request.place)
        if fault == "lose":
            raise Disconnected("the answer was lost")
        return answer

    @property
    def is_cut(self) -> bool:
        return self.cut_after is not None and len(self.written) >= self.cut_after

    def count(self, ending: str) -> int:
        return sum(1 for write in self.written if write.endswith(ending))


def refusal(error: ApiError) -> Answer:
    return Answer(error.code, {}, msgspec.json.encode(error.to_status()))
