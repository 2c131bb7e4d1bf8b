"""The transport against a server that answers byte for byte what a test tells it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from hekla.client.tokens import FixedToken
from hekla.client.transport import HttpTransport, Request
from hekla.errors import Disconnected

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Server:
    """Answers every request with the next of `answers` (the last one for ever); `requests` are those that came."""

    answers: list[bytes]
    closes_after: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    held: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        served = 0
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                if self.held is not None:
                    await self.held.wait()
                writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
                await writer.drain()
                served += 1
                if served == self.closes_after:
                    break
        finally:
            writer.close()

    def transport(self, **options: object) -> HttpTransport:
        return HttpTransport(f"http://127.0.0.1:{self.port}/prefix", **options)  # type: ignore[arg-type]


async def _read_request(reader: asyncio.StreamReader) -> bytes | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
    return head + await reader.readexactly(length)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


def with_server(server: Server, test: Callable[[HttpTransport], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), serving(server):
            transport = server.transport(**options)
            try:
                await test(transport)
            finally:
                await transport.close()

    asyncio.run(run())


def test_a_request_carries_path_headers_and_body() -> None:
    server = Server([OK])

    async def test(transport: HttpTransport) -> None:
        answer = await transport.send(Request("POST", "/pods?a=b%2Fc", b"{}", {"Accept": "application/json"}))
        assert (answer.status, answer.body) == (200, b"ok")

    with_server(server, test, tokens=FixedToken("x"))
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /prefix/pods?a=b%2Fc HTTP/1.1"
    assert {b"Host: 127.0.0.1:%d" % server.port, b"Authorization: Bearer x", b"Accept: application/json"} < set(lines)
    assert body == b"{}"


def test_connections_are_kept_and_used_again() -> None:
    server = Server([OK])

    async def test(transport: HttpTransport) -> None:
        for _ in range(5):
            await transport.send(Request("GET", "/"))

    with_server(server, test)
    assert (server.connections, len(server.requests)) == (1, 5)


def test_an_answer_in_pieces_is_put_together() -> None:
    pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    async def test(transport: HttpTransport) -> None:
        assert (await transport.send(Request("GET", "/"))).body == b"abcde"
        assert (await transport.send(Request("GET", "/"))).body == b"abcde"

    server = Server([pieces])
    with_server(server, test)
    assert server.connections == 1


def test_an_answer_without_length_lasts_until_the_connection_ends() -> None:
    async def test(transport: HttpTransport) -> None:
        assert (await transport.send(Request("GET", "/"))).body == b"all of it"

    with_server(Server([b"HTTP/1.1 200 OK\r\n\r\nall of it"], closes_after=1), test)


def test_an_answer_cut_short_is_no_answer() -> None:
    async def test(transport: HttpTransport) -> None:
        with pytest.raises(Disconnected):
            await transport.send(Request("GET", "/"))

    with_server(Server([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"], closes_after=1), test)


def test_an_answer_that_is_not_http_is_no_answer() -> None:
    async def test(transport: HttpTransport) -> None:
        with pytest.raises(Disconnected, match="not HTTP"):
            await transport.send(Request("GET", "/"))

    with_server(Server([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"]), test)


def test_a_read_on_a_connection_the_server_let_go_is_sent_again_and_a_write_is_not() -> None:
    server = Server([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b""], closes_after=2)

    async def test(transport: HttpTransport) -> None:
        await transport.send(Request("GET", "/first"))
        # The second answer is nothing at all, and the connection ends.
        server.answers[:] = [b"", OK]
        assert (await transport.send(Request("GET", "/second"))).body == b"ok"
        server.answers[:] = [b"", OK]
        with pytest.raises(Disconnected):
            await transport.send(Request("POST", "/third"))

    with_server(server, test)
    lines = [request.split(b" ")[1] for request in server.requests]
    assert lines == [b"/prefix/first", b"/prefix/second", b"/prefix/second", b"/prefix/third"]


def test_a_connection_that_says_close_is_not_used_again() -> None:
    server = Server([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"])

    async def test(transport: HttpTransport) -> None:
        await transport.send(Request("POST", "/"))
        await transport.send(Request("POST", "/"))

    with_server(server, test)
    assert server.connections == 2


def test_the_connection_of_a_cancelled_request_is_not_used_again() -> None:
    server = Server([OK])

    async def test(transport: HttpTransport) -> None:
        server.held = asyncio.Event()
        first = asyncio.create_task(transport.send(Request("POST", "/first")))
        while not server.requests:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        server.held.set()
        assert (await transport.send(Request("POST", "/second"))).body == b"ok"

    with_server(server, test)
    assert server.connections == 2


def test_no_more_connections_than_allowed_and_turns_in_order() -> None:
    server = Server([OK])

    async def test(transport: HttpTransport) -> None:
        await asyncio.gather(*(transport.send(Request("GET", f"/{index}")) for index in range(20)))

    with_server(server, test, connections=1)
    assert server.connections == 1
    assert [request.split(b" ")[1] for request in server.requests] == [b"/prefix/%d" % index for index in range(20)]


def test_no_answer_in_time() -> None:
    async def test(transport: HttpTransport) -> None:
        server.held = asyncio.Event()
        with pytest.raises(Disconnected, match="no answer in time"):
            await transport.send(Request("GET", "/", timeout=0.05))
        server.held.set()

    server = Server([OK])
    with_server(server, test)


def test_time_runs_on_connections_that_were_used_before_and_for_answers_that_have_begun() -> None:
    async def test(transport: HttpTransport) -> None:
        await transport.send(Request("POST", "/"))
        with pytest.raises(Disconnected, match="no answer in time"):
            await transport.send(Request("POST", "/", timeout=0.05))
        assert (await transport.send(Request("POST", "/"))).body == b"ok"

    half = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"
    server = Server([OK, half, OK])
    with_server(server, test)
    assert server.connections == 2


def test_time_runs_while_a_turn_is_waited_for() -> None:
    async def test(transport: HttpTransport) -> None:
        server.held = asyncio.Event()
        first = asyncio.create_task(transport.send(Request("POST", "/first")))
        while not server.requests:
            await asyncio.sleep(0)
        with pytest.raises(Disconnected, match="no answer in time"):
            await transport.send(Request("POST", "/second", timeout=0.05))
        server.held.set()
        assert (await first).body == b"ok"

    server = Server([OK])
    with_server(server, test, connections=1)
    assert len(server.requests) == 1


class NoToken:
    """A program that hands out tokens, and hangs."""

    def at_hand(self) -> None:
        return None

    async def token(self, refused: str = "") -> str:
        await asyncio.Event().wait()
        return ""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_time_runs_while_a_token_or_a_handshake_is_waited_for(scheme: str) -> None:
    async def test(_: HttpTransport) -> None:
        server.held = asyncio.Event()
        tokens = NoToken() if scheme == "http" else None
        transport = HttpTransport(f"{scheme}://127.0.0.1:{server.port}", tokens=tokens)
        async with asyncio.timeout(5):
            with pytest.raises(Disconnected, match="no answer in time"):
                await transport.send(Request("GET", "/", timeout=0.05))
        await transport.close()

    server = Server([OK])
    with_server(server, test)


def test_nobody_there() -> None:
    async def test(transport: HttpTransport) -> None:
        with pytest.raises(Disconnected):
            await HttpTransport("http://127.0.0.1:1").send(Request("GET", "/"))

    with_server(Server([OK]), test)


def test_repeated_headers_are_joined() -> None:
    answer = b'HTTP/1.1 200 OK\r\nwarning: 299 - "a"\r\nWarning: 299 - "b"\r\nContent-Length: 0\r\n\r\n'

    async def test(transport: HttpTransport) -> None:
        assert (await transport.send(Request("GET", "/"))).headers["Warning"] == '299 - "a", 299 - "b"'

    with_server(Server([answer]), test)


def test_a_stream_is_read_as_it_comes_until_it_ends() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def test(transport: HttpTransport) -> None:
        async with transport.stream(Request("GET", "/")) as answer:
            assert answer.status == 200
            assert b"".join([chunk async for chunk in answer.chunks]) == b"abcde"

    with_server(Server([head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"]), test)


def test_a_stream_cut_short_is_told() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def test(transport: HttpTransport) -> None:
        read: list[bytes] = []
        with pytest.raises(Disconnected):
            await _read_into(read, transport)
        assert b"".join(read) == b"abc"

    with_server(Server([head + b"3\r\nabc\r\n"], closes_after=1), test)


async def _read_into(read: list[bytes], transport: HttpTransport, timeout: float = 60) -> None:
    async with transport.stream(Request("GET", "/", timeout=timeout)) as answer:
        async for chunk in answer.chunks:
            read.append(chunk)


def test_a_stream_that_falls_silent_is_over_in_its_time() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def test(transport: HttpTransport) -> None:
        read: list[bytes] = []
        with pytest.raises(Disconnected, match="no answer in time"):
            await _read_into(read, transport, timeout=0.05)
        assert read == [b"abc"]

    with_server(Server([head + b"3\r\nabc\r\n"]), test)


def test_a_stream_that_is_refused_carries_the_refusal() -> None:
    async def test(transport: HttpTransport) -> None:
        async with transport.stream(Request("GET", "/")) as answer:
            assert (answer.status, answer.body) == (410, b"gone")

    with_server(Server([b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone"]), test)


def test_a_long_stream_read_slowly_is_read_whole() -> None:
    size = 24 << 20
    body = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size

    async def test(transport: HttpTransport) -> None:
        total = 0
        async with transport.stream(Request("GET", "/")) as answer:
            async for chunk in answer.chunks:
                total += len(chunk)
                for _ in range(50):
                    await asyncio.sleep(0)
        assert total == size

    with_server(Server([body]), test)


def test_what_cannot_stand_in_a_path_is_escaped_and_line_breaks_in_headers_are_refused() -> None:
    server = Server([OK])

    async def test(transport: HttpTransport) -> None:
        await transport.send(Request("GET", "/pods/a b\r\nX: y/ü%2F"))
        with pytest.raises(ValueError, match="line break"):
            await transport.send(Request("GET", "/", headers={"A": "b\r\nC: d"}))

    with_server(server, test)
    assert server.requests[0].startswith(b"GET /prefix/pods/a%20b%0D%0AX:%20y/%C3%BC%2F HTTP/1.1\r\n")


def test_a_long_refusal_of_a_stream_is_read_to_its_end() -> None:
    body = b"x" * (9 << 20)
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def test(transport: HttpTransport) -> None:
        async with transport.stream(Request("GET", "/")) as answer:
            assert (answer.status, len(answer.body)) == (403, len(body))

    with_server(Server([refusal]), test)
