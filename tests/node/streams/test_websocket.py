"""Frames as clients send them, whole or in pieces, and what is not one."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.node.streams.websocket import Handshake, Opcode, ProtocolError, WebSocket, accept, read_handshake, unmask


def frame(opcode: int, payload: bytes, *, final: bool = True, mask: bytes = b"abcd") -> bytes:
    length = len(payload)
    sizes = struct.pack("!B", 0x80 | length) if length < 126 else struct.pack("!BQ", 0xFF, length)
    return bytes([opcode | (0x80 if final else 0)]) + sizes + mask + unmask(payload, mask)


class Wire:
    """A connection's writing end that remembers."""

    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None: ...

    def close(self) -> None: ...


def receive(data: bytes) -> tuple[list[bytes], bytes]:
    async def main() -> tuple[list[bytes], bytes]:
        reader, wire = asyncio.StreamReader(), Wire()
        reader.feed_data(data)
        reader.feed_eof()
        socket = WebSocket(reader, wire, "x")  # type: ignore[arg-type]
        found = []
        while (message := await socket.receive()) is not None:
            found.append(message)
        return found, wire.sent

    return asyncio.run(main())


@given(st.lists(st.binary(max_size=300), max_size=5), st.binary(min_size=4, max_size=4))
def test_messages_arrive_as_sent(messages: list[bytes], mask: bytes) -> None:
    data = b"".join(frame(Opcode.BINARY, each, mask=mask) for each in messages)
    assert receive(data)[0] == messages


def test_a_message_in_pieces_is_put_together_and_a_ping_between_them_is_answered() -> None:
    pieces = frame(Opcode.BINARY, b"one ", final=False) + frame(Opcode.PING, b"there?") + frame(0, b"message")
    messages, sent = receive(pieces + frame(Opcode.CLOSE, b"") + frame(Opcode.BINARY, b"too late"))
    assert messages == [b"one message"]
    assert sent == b"\x8a\x06there?"


@pytest.mark.parametrize("data", [b"\x82\x01x", b"\xc2\x80abcd", b"\x82\xff" + b"\xff" * 8])
def test_what_no_client_may_send_ends_the_session(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        receive(data)


def test_the_handshake_proves_that_it_was_read() -> None:
    async def main() -> bytes:
        reader, wire = asyncio.StreamReader(), Wire()
        reader.feed_data(
            b"GET /exec/a/b/c?command=x HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v9, v5\r\nSec-WebSocket-Protocol: v4\r\n\r\n"
        )
        handshake = await read_handshake(reader)
        assert handshake.protocols == ["v9", "v5", "v4"]
        assert await accept(handshake, ("v5", "v4"), reader, wire) is not None  # type: ignore[arg-type]
        return wire.sent

    sent = asyncio.run(main())
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in sent  # the example of RFC 6455
    assert b"Sec-WebSocket-Protocol: v5\r\n" in sent


def test_one_who_speaks_nothing_we_know_is_refused() -> None:
    async def main() -> bytes:
        wire = Wire()
        handshake = Handshake("/", {"sec-websocket-key": "x", "sec-websocket-version": "13"})
        assert await accept(handshake, ("v5",), asyncio.StreamReader(), wire) is None  # type: ignore[arg-type]
        return wire.sent

    assert asyncio.run(main()).startswith(b"HTTP/1.1 403 ")
