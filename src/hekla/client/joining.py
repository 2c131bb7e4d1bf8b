"""Writes of the same moment sent as one request, where the server takes that; nobody above notices.

Hundreds of small objects are written side by side, each by somebody who waits for its answer, and much of what such a
write costs is HTTP, on both sides. Who comes first in a turn of the event loop takes along who else comes in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import msgspec

from hekla.api.batches import BATCH_PATH, REQUEST_BATCH
from hekla.client.transport import USUAL_SECONDS, Answer, Request, StreamedAnswer, Transport
from hekla.errors import Disconnected

_JOINED = ("POST", "PUT", "PATCH")
_JSON = "application/json"
# Few enough that the server is at work on some while we are on others.
_MOST = 16
# Large ones gain nothing, and must not make a request too large.
_LARGEST = 32_768


class _Result(msgspec.Struct):
    code: int
    body: msgspec.Raw
    headers: dict[str, str]


class _Results(msgspec.Struct):
    results: list[_Result]


_decode = msgspec.json.Decoder(_Results).decode


@dataclass(slots=True)
class _Company:
    """Requests that go together, and who waits for their answers; None for an answer is that each goes alone."""

    items: list[dict[str, object]] = field(default_factory=list)
    permits: list[Callable[[], None]] = field(default_factory=list)
    waiting: list[asyncio.Future[Answer | None]] = field(default_factory=list)

    def join(self, request: Request) -> asyncio.Future[Answer | None]:
        content_type, body = request.headers.get("Content-Type", _JSON), msgspec.Raw(request.body)
        self.items.append({"method": request.method, "path": request.path, "type": content_type, "body": body})
        self.permits.append(request.permit)
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def permit(self) -> None:
        """What one of them may not do they do not do together."""
        for permit in self.permits:
            permit()

    def part(self) -> None:
        for one in self._unanswered():
            one.set_result(None)

    def answer(self, answer: Answer) -> None:
        if answer.status != 200:
            # It is about the whole: each hears of it.
            results = [answer] * len(self.items)
        else:
            results = [Answer(one.code, one.headers, bytes(one.body)) for one in _decode(answer.body).results]
        for one, result in zip(self.waiting, results, strict=True):
            if not one.done():
                one.set_result(result)

    def fail(self, why: str) -> None:
        for one in self._unanswered():
            one.set_exception(Disconnected(why))

    def _unanswered(self) -> list[asyncio.Future[Answer | None]]:
        return [one for one in self.waiting if not one.done()]


class JoiningTransport:
    """A Transport over another."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._offered: bool | None = None
        self._open: _Company | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, request: Request) -> Answer:
        if self._offered is not False and _may_join(request):
            answer = await self._company(request.headers).join(request)
            if answer is not None:
                return answer
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._inner.stream(request)

    async def close(self) -> None:
        for sending in self._sending:
            sending.cancel()
        await self._inner.close()

    def _company(self, headers: Mapping[str, str]) -> _Company:
        """One that others may still join."""
        company = self._open
        if company is None or len(company.items) == _MOST:
            company = self._open = _Company()
            # Nobody's own: who gives up waiting for his answer takes nobody else's along.
            sending = asyncio.create_task(self._send_all(company, headers))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
        return company

    async def _send_all(self, company: _Company, headers: Mapping[str, str]) -> None:
        """Begins in the next turn: until then others join."""
        try:
            self._close(company)
            # Alone, or to a server that knows nothing of it, everybody goes as ever.
            if len(company.items) == 1 or not await self._is_offered(headers):
                company.part()
                return
            body = msgspec.json.encode({"items": company.items})
            sent = {**headers, "Content-Type": _JSON}
            company.permit()
            together = Request("POST", REQUEST_BATCH.path(), body, sent, permit=company.permit)
            company.answer(await self._inner.send(together))
        except (Disconnected, msgspec.DecodeError) as error:
            company.fail(str(error))
        finally:
            company.fail("the connection was closed")

    def _close(self, company: _Company) -> None:
        if self._open is company:
            self._open = None

    async def _is_offered(self, headers: Mapping[str, str]) -> bool:
        if self._offered is None:
            answer = await self._inner.send(Request("GET", BATCH_PATH, headers=headers))
            if answer.status not in (200, 403, 404):
                return False
            self._offered = answer.status == 200 and f'"{REQUEST_BATCH.plural}"'.encode() in answer.body
        return self._offered


def _may_join(request: Request) -> bool:
    usual = request.method in _JOINED and request.timeout == USUAL_SECONDS
    return usual and 0 < len(request.body) <= _LARGEST and not request.path.startswith(BATCH_PATH)
