"""Connections over TLS, counted by what they made the server prove."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import ssl
import weakref
from collections.abc import AsyncIterator
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import pytest

from hekla.client.tls import ResumingContext
from hekla.client.transport import HttpTransport, Request
from hekla.clock import SystemClock
from hekla.errors import Disconnected
from hekla.local.credentials import Credentials, ensure_credentials


class Seen(NamedTuple):
    """What a server saw of a connection: whether it took up an earlier session, and whether it had a certificate."""

    resumed: bool
    certified: bool = False


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return ensure_credentials(tmp_path_factory.mktemp("pki"), clock=SystemClock(), rng=random.SystemRandom())


@contextlib.asynccontextmanager
async def serving(credentials: Credentials, seen: list[Seen], port: int = 0) -> AsyncIterator[int]:
    """A server that answers one request a connection; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected = writer.get_extra_info("ssl_object")
        seen.append(Seen(connected.session_reused, bool(connected.getpeercert())))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port, ssl=server_context(credentials)) as listening:
        yield listening.sockets[0].getsockname()[1]


def server_context(credentials: Credentials) -> ssl.SSLContext:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(credentials.ca))
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_cert_chain(credentials.server.certificate, credentials.server.key)
    return tls


async def ask(transport: HttpTransport) -> None:
    assert (await transport.send(Request("GET", "/"))).body == b"ok"


def transport_to(port: int, ca: Path) -> HttpTransport:
    return HttpTransport(f"https://127.0.0.1:{port}", tls=ResumingContext.trusting(ca.read_text()))


def test_connections_take_up_an_earlier_session_also_many_at_once(credentials: Credentials) -> None:
    async def run() -> list[Seen]:
        seen: list[Seen] = []
        async with asyncio.timeout(60), serving(credentials, seen) as port:
            transport = transport_to(port, credentials.ca)
            await ask(transport)
            await asyncio.gather(*(ask(transport) for _ in range(8)))
            await ask(transport)
            await transport.close()
        return seen

    assert asyncio.run(run()) == [Seen(resumed=False), *[Seen(resumed=True)] * 9]


def test_who_a_client_is_stays_known_when_it_takes_up_a_session(credentials: Credentials) -> None:
    async def run() -> list[Seen]:
        seen: list[Seen] = []
        async with asyncio.timeout(60), serving(credentials, seen) as port:
            tls = ResumingContext.trusting(credentials.ca.read_text())
            tls.load_cert_chain(credentials.kubelet_client.certificate, credentials.kubelet_client.key)
            transport = HttpTransport(f"https://127.0.0.1:{port}", tls=tls)
            await ask(transport)
            await ask(transport)
            await transport.close()
        return seen

    assert asyncio.run(run()) == [Seen(resumed=False, certified=True), Seen(resumed=True, certified=True)]


def test_a_server_that_was_started_again_is_connected_to_as_if_for_the_first_time(credentials: Credentials) -> None:
    async def run() -> list[Seen]:
        seen: list[Seen] = []
        async with asyncio.timeout(60):
            async with serving(credentials, seen) as port:
                transport = transport_to(port, credentials.ca)
                await ask(transport)
                await ask(transport)
            async with serving(credentials, seen, port):
                await ask(transport)
                await ask(transport)
            await transport.close()
        return seen

    assert [each.resumed for each in asyncio.run(run())] == [False, True, False, True]


@pytest.mark.parametrize("steps", range(5))
def test_another_connection_may_begin_at_any_point_of_a_handshake(credentials: Credentials, steps: int) -> None:
    context = ResumingContext.trusting(credentials.ca.read_text())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = server_context(credentials).wrap_bio(to_server, to_client, server_side=True)
    for side in islice(cycle((client, server)), steps):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="127.0.0.1") is not client


def test_a_name_that_was_not_proven_is_proven_though_a_session_is_known(credentials: Credentials) -> None:
    async def run() -> list[Seen]:
        seen: list[Seen] = []
        async with asyncio.timeout(60), serving(credentials, seen) as port:
            tls = ResumingContext.trusting(credentials.ca.read_text())
            known, other = (
                HttpTransport(f"https://127.0.0.1:{port}", tls=tls, server_name=name) for name in ("", "other.example")
            )
            await ask(known)
            with pytest.raises(Disconnected, match="certificate verify failed"):
                await ask(other)
            await ask(known)
            await known.close()
            await other.close()
        return seen

    assert [each.resumed for each in asyncio.run(run())] == [False, True]


def test_of_a_client_that_is_closed_nothing_stays_in_memory(credentials: Credentials) -> None:
    async def run() -> weakref.ref[ResumingContext]:
        async with asyncio.timeout(60), serving(credentials, []) as port:
            tls = ResumingContext.trusting(credentials.ca.read_text())
            transport = HttpTransport(f"https://127.0.0.1:{port}", tls=tls)
            await ask(transport)
            await ask(transport)
            await transport.close()
        return weakref.ref(tls)

    left = asyncio.run(run())
    # First the connections go, and leave their session behind; then who held it.
    gc.collect()
    gc.collect()
    assert left() is None


def test_a_server_that_nobody_vouches_for_is_refused(credentials: Credentials, tmp_path: Path) -> None:
    others = ensure_credentials(tmp_path, clock=SystemClock(), rng=random.SystemRandom())

    async def run() -> None:
        async with asyncio.timeout(60), serving(others, []) as port:
            transport = transport_to(port, credentials.ca)
            with pytest.raises(Disconnected, match="certificate verify failed"):
                await ask(transport)
            await transport.close()

    asyncio.run(run())
