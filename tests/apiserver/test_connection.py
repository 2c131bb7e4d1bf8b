"""Heads without end, bytes that trickle and bodies that stop: every connection comes to an end of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hekla.api.kinds import CONFIG_MAP
from hekla.apiserver.app import App, build_app
from hekla.apiserver.connection import Patience
from hekla.apiserver.listener import Listener
from hekla.apiserver.sockets import listen_unix
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import HttpTransport
from hekla.clock import SystemClock
from tests.apiserver.rig import config_map

GET = b"GET /version HTTP/1.1\r\nhost: localhost\r\n"


@contextlib.asynccontextmanager
async def listening(folder: Path, patience: Patience | None = None) -> AsyncIterator[App]:
    app = build_app(MemoryStore(SystemClock()), clock=SystemClock(), rng=random.Random(1))
    await app.start()
    listener = Listener(app, listen_unix(folder / "s"), patience=patience)
    await listener.start()
    try:
        yield app
    finally:
        await listener.stop()


async def say(folder: Path, *pieces: bytes) -> bytes:
    """Send, and read until the server closes the connection."""
    reader, writer = await asyncio.open_unix_connection(str(folder / "s"))
    try:
        for piece in pieces:
            writer.write(piece)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                return await reader.read()
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /version?" + b"x" * 9000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", b"414"),
        (GET + b"a: " + b"x" * 17_000 + b"\r\n\r\n", b"431"),
        (GET + b"".join(b"h%d: x\r\n" % n for n in range(101)) + b"\r\n", b"431"),
        (GET + b"a: " + b"x" * 100_000, b"431"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_heads_that_are_too_long_are_refused_before_they_are_read(tmp_path: Path, head: bytes, status: bytes) -> None:
    async def main() -> bytes:
        async with listening(tmp_path):
            return await say(tmp_path, head)

    assert asyncio.run(main()).startswith(b"HTTP/1.1 " + status)


def test_a_head_of_usual_size_is_answered(tmp_path: Path) -> None:
    async def main() -> bytes:
        async with listening(tmp_path):
            return await say(tmp_path, GET + b"a: " + b"x" * 8000 + b"\r\nconnection: close\r\n\r\n")

    assert asyncio.run(main()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"", b""),
        (GET, b"HTTP/1.1 408"),
        (
            b"DELETE /api/v1/namespaces/default/configmaps/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
            b"",
        ),
    ],
)
def test_who_is_too_slow_is_let_go_and_nothing_is_done_for_him(tmp_path: Path, said: bytes, answer: bytes) -> None:
    async def main() -> bytes:
        async with listening(tmp_path, Patience(0.1, 0.1, 0.1)) as app:
            client = Client(InProcessTransport(app))
            await client.create(CONFIG_MAP, config_map())
            heard = await say(tmp_path, said)
            await client.get(CONFIG_MAP, "a", "default")
            return heard

    heard = asyncio.run(main())
    assert heard.startswith(answer)
    assert answer or not heard


def test_streams_end_with_the_listener_and_are_not_given_up_on(tmp_path: Path) -> None:
    async def main() -> None:
        app = build_app(MemoryStore(SystemClock()), clock=SystemClock(), rng=random.Random(1))
        await app.start()
        listener = Listener(app, listen_unix(tmp_path / "s"))
        await listener.start()
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(f"GET {CONFIG_MAP.path('default')}?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        (watching,) = listener._state.tasks
        await listener.stop()
        assert watching.done()
        writer.close()

    asyncio.run(main())


def test_half_a_request_is_not_obeyed(tmp_path: Path) -> None:
    """A delete whose body would have said "only if it is that one"."""

    async def main() -> None:
        async with listening(tmp_path) as app:
            client = Client(InProcessTransport(app))
            await client.create(CONFIG_MAP, config_map())
            _, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            head = f"DELETE {CONFIG_MAP.path('default', 'a')} HTTP/1.1"
            writer.write(f"{head}\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n".encode())
            await writer.drain()
            writer.close()
            await say(tmp_path, GET + b"connection: close\r\n\r\n")
            await client.get(CONFIG_MAP, "a", "default")

    asyncio.run(main())


def test_many_requests_on_one_connection_outlive_the_patience_for_each(tmp_path: Path) -> None:
    async def main() -> None:
        # Long enough that a busy machine, which stops us between the two halves of a request, does not use it up.
        async with listening(tmp_path, Patience(60.0, 2.0, 2.0)):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            started = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() < started + 2.5:
                writer.write(GET)
                await asyncio.sleep(0)
                writer.write(b"\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
            writer.close()

    asyncio.run(main())


def test_a_warning_about_what_somebody_wrote_on_two_lines_or_in_another_script_is_one_header(tmp_path: Path) -> None:
    """The line break ended the header, and with it the answer: kubectl took it for a failure."""
    told: list[str] = []
    odd = {**config_map(), "odd\r\nx-mine: 1": 1, 'größe "数" \\': 2}

    async def main() -> None:
        async with listening(tmp_path) as app:
            http = HttpTransport("http://localhost", socket_path=str(tmp_path / "s"))
            for transport in (http, InProcessTransport(app)):
                await Client(transport, on_warning=told.append).create(CONFIG_MAP, odd, dry_run=True)
            await http.close()

    asyncio.run(main())
    assert told == 2 * ['unknown field "odd\\r\\nx-mine: 1"', 'unknown field "größe "数" \\"']
