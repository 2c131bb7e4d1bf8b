"""A component's figures, served for Prometheus at `/metrics`, and pages of its own; `/healthz` says that its event loop
lives.

Answers come from the component's own event loop, so a collector may look at what the component works with, and a loop
that hangs is found out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter as Tally
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from hekla.errors import UsageError
from hekla.log import get_logger

log = get_logger("metrics")

_PATIENCE_SECONDS = 5.0
_MOST_BYTES = 8192
# What is above, sockets would take for another: 65616 for 80.
_HIGHEST_PORT = 65_535


class PlainCounter(Collector):
    """A counter under exactly the name it is given: the library's own would add `_total`, which upstream's have not."""

    def __init__(self, name: str, help_: str, labels: tuple[str, ...], *, registry: CollectorRegistry) -> None:
        self._name = name
        self._help = help_
        self._labels = labels
        self._counts: Tally[tuple[str, ...]] = Tally()
        registry.register(self)

    def add(self, *values: str) -> None:
        self._counts[values] += 1

    def forget(self, *values: str) -> None:
        self._counts.pop(values, None)

    def collect(self) -> Iterator[Metric]:
        samples = ((dict(zip(self._labels, values, strict=True)), count) for values, count in self._counts.items())
        yield plain_counter(self._name, self._help, samples)


def plain_counter(name: str, help_: str, samples: Iterable[tuple[dict[str, str], int]]) -> Metric:
    metric = Metric(name, help_, "counter")
    metric.type = _PlainType(metric.type)
    for labels, count in samples:
        metric.add_sample(name, labels, count)
    return metric


class _PlainType(str):
    """The word `counter`, but not the one after which the library adds to a name."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = str.__hash__


def tell_whether_leading(registry: CollectorRegistry, lease: str, leads: Callable[[], bool]) -> None:
    """Under the name that all of Kubernetes' components have for it."""
    gauge = Gauge(
        "leader_election_master_status", "Whether we hold a Lease (1) or stand by.", ("name",), registry=registry
    )
    gauge.labels(lease).set_function(leads)


@contextlib.asynccontextmanager
async def serving_metrics(
    registry: CollectorRegistry, address: str, pages: Mapping[str, Callable[[], object]] | None = None
) -> AsyncIterator[int]:
    """Serve at `address` (`host:port` or `:port`, port 0 for a free one) until the block ends; gives the port.

    `pages` are more paths, and what gives the JSON document that is served there.
    """
    async with _serving("metrics", _Page(registry, pages or {}), address) as port:
        yield port


@contextlib.asynccontextmanager
async def serving_health(address: str) -> AsyncIterator[int]:
    """Serve `/healthz` alone, for those who want it at an address of its own."""
    async with _serving("health", _Page(None, {}), address) as port:
        yield port


@contextlib.asynccontextmanager
async def _serving(what: str, page: _Page, address: str) -> AsyncIterator[int]:
    host, port = _split(address)
    try:
        server = await asyncio.start_server(page.answer, host or None, port, limit=_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot serve {what} at {address}: {error.strerror or error}") from None
    bound = int(server.sockets[0].getsockname()[1])
    log.info("serving", what=what, port=bound)
    try:
        yield bound
    finally:
        server.close()


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _HIGHEST_PORT:
        raise UsageError(f"{address!r} is not an address such as :8081 or 127.0.0.1:8081")
    return host.strip("[]"), int(port)


class _Page:
    def __init__(self, registry: CollectorRegistry | None, pages: Mapping[str, Callable[[], object]]) -> None:
        self._registry = registry
        self._pages = pages

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self._page(head.split(b" ", 2)[:2])
                lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}")
                writer.write("\r\n".join((*lines, "Connection: close", "", "")).encode() + body)
                await writer.drain()
        writer.close()

    def _page(self, asked: list[bytes]) -> tuple[str, str, bytes]:
        if asked == [b"GET", b"/metrics"] and self._registry is not None:
            return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
        if asked == [b"GET", b"/healthz"]:
            return "200 OK", "text/plain", b"ok"
        method, path = asked if len(asked) == 2 else (b"", b"")
        page = self._pages.get(path.decode("latin-1")) if method == b"GET" else None
        if page is not None:
            return "200 OK", "application/json", msgspec.json.encode(page())
        return "404 Not Found", "text/plain", b"not found"
