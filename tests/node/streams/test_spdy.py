"""SPDY frames as a client sends them, and what is none."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.node.streams.spdy import DICTIONARY, SpdySession
from hekla.node.streams.websocket import ProtocolError

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7


class Line:
    """Both ends of a connection: what the client sends is fed, what the server sends is kept."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader()
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self.sent = b""

    async def read_exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise EOFError from error

    async def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None: ...

    def control(self, kind: int, body: bytes, flags: int = 0) -> None:
        self._reader.feed_data(struct.pack("!HHI", 0x8003, kind, flags << 24 | len(body)) + body)

    def data(self, stream: int, data: bytes, *, final: bool = False) -> None:
        self._reader.feed_data(struct.pack("!II", stream, int(final) << 24 | len(data)) + data)

    def open(self, stream: int, **headers: str) -> None:
        plain = struct.pack("!I", len(headers))
        for name, value in headers.items():
            for text in (name, value):
                plain += struct.pack("!I", len(text)) + text.encode()
        block = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self.control(_SYN_STREAM, struct.pack("!IIH", stream, 0, 0) + block)

    def feed(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def hang_up(self) -> None:
        self._reader.feed_eof()


def talk(story: Callable[[Line, SpdySession], Awaitable[None]]) -> bytes:
    """What the server has sent when the story is over."""

    async def main() -> bytes:
        line = Line()
        session = SpdySession(line)
        reading = asyncio.create_task(session.run())
        async with asyncio.timeout(60):
            await story(line, session)
            line.hang_up()
            await reading
        return line.sent

    return asyncio.run(main())


def test_a_stream_is_opened_answered_and_carries_both_ways() -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.open(1, streamtype="data", port="80")
        line.data(1, b"hello ")
        line.data(1, b"there", final=True)
        stream = await session.accept()
        assert stream is not None
        assert stream.headers == {"streamtype": "data", "port": "80"}
        assert [await stream.read() for _ in range(4)] == [b"hello ", b"there", b"", b""]
        await stream.write(b"answer")
        await stream.close()

    sent = talk(story)
    assert struct.unpack("!HHI", sent[:8])[:2] == (0x8003, _SYN_REPLY)
    assert sent.endswith(struct.pack("!II", 1, 6) + b"answer" + struct.pack("!II", 1, 1 << 24))


def test_headers_of_later_streams_need_those_before() -> None:
    """The compressor is one for the whole connection."""

    async def story(line: Line, session: SpdySession) -> None:
        for number in (1, 3, 5):
            line.open(number, streamtype="error", requestid=str(number))
        for number in (1, 3, 5):
            stream = await session.accept()
            assert stream is not None
            assert stream.headers["requestid"] == str(number)

    talk(story)


def test_a_ping_is_answered_with_itself() -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.control(_PING, struct.pack("!I", 77))

    assert talk(story) == struct.pack("!HHII", 0x8003, _PING, 4, 77)


def test_a_client_that_goes_ends_all_reading() -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.open(1)
        stream = await session.accept()
        assert stream is not None
        reading = asyncio.create_task(stream.read())
        line.control(_GOAWAY, struct.pack("!II", 0, 0))
        assert await reading == b""
        assert await session.accept() is None

    talk(story)


def test_a_stream_that_is_reset_is_not_written_to() -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.open(1)
        stream = await session.accept()
        assert stream is not None
        line.control(_RST_STREAM, struct.pack("!II", 1, 5))
        assert await stream.read() == b""
        before = line.sent
        await stream.write(b"nobody hears")
        await stream.close()
        assert line.sent == before

    talk(story)


def test_a_stream_nobody_reads_holds_the_client_back_until_it_is_forgotten() -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.open(1)
        line.open(3)
        for _ in range(500):
            line.data(1, b"x" * 1000)
        line.data(3, b"behind it")
        first, second = await session.accept(), await session.accept()
        assert first is not None
        assert second is not None
        reading = asyncio.create_task(second.read())
        # A few turns of the loop: whatever can happen has happened.
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not reading.done()
        session.forget(first)
        assert await reading == b"behind it"

    talk(story)


@pytest.mark.parametrize(
    "wrong",
    [
        struct.pack("!HHI", 0x8002, _PING, 4) + b"1234",  # SPDY/2
        struct.pack("!HHI", 0x8003, _SYN_STREAM, 12) + b"1234567890ab",  # headers that are not compressed
        struct.pack("!HHI", 0x8003, _RST_STREAM, 2) + b"12",
        struct.pack("!II", 1, 0xFFFFFF),  # larger than anybody needs
    ],
)
def test_what_is_not_spdy_is_refused(wrong: bytes) -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.feed(wrong)

    with pytest.raises(ProtocolError):
        talk(story)


@given(st.binary(max_size=200))
def test_noise_ends_the_session_and_nothing_else(noise: bytes) -> None:
    async def story(line: Line, session: SpdySession) -> None:
        line.feed(noise)

    try:
        talk(story)
    except ProtocolError:
        pass


def test_the_dictionary_is_the_one_everybody_has() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
