"""The server's side of a websocket (RFC 6455): the handshake and whole messages, nothing more.

No extensions, no compression: what comes through here are terminals and files on the loopback.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from hekla.errors import HeklaError

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LARGEST_MESSAGE = 16 << 20
_CLOSE_SECONDS = 2.0


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class ProtocolError(HeklaError):
    """The other side does not speak the protocol."""


@dataclass(frozen=True)
class Handshake:
    """A request to become a websocket."""

    target: str
    headers: Mapping[str, str]  # names in lower case

    @property
    def protocols(self) -> list[str]:
        offered = self.headers.get("sec-websocket-protocol", "")
        return [each.strip() for each in offered.split(",") if each.strip()]


async def read_handshake(reader: asyncio.StreamReader) -> Handshake:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    target = first.split(" ")[1]
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines if line):
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return Handshake(target, headers)


async def accept(
    handshake: Handshake, protocols: Sequence[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> WebSocket | None:
    """Become a websocket that speaks the first of `protocols` the client offers; None, answered, if it offers none."""
    chosen = next((each for each in protocols if each in handshake.protocols), None)
    key = handshake.headers.get("sec-websocket-key", "")
    if chosen is None or not key or handshake.headers.get("sec-websocket-version") != "13":
        await refuse(writer, 403, f"none of the protocols offered is known here; this server speaks {protocols[0]}")
        return None
    proof = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC, usedforsecurity=False).digest()).decode()
    writer.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: {chosen}\r\n\r\n".encode()
    )
    return WebSocket(reader, writer, chosen)


async def refuse(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    """Answer as plain HTTP instead, and hang up."""
    body = text.encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


class WebSocket:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: str) -> None:
        self.protocol = protocol
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes | None:
        """The next message, whole; None when the other side has said goodbye or is gone. Pings are answered here."""
        message = b""
        while True:
            try:
                final, opcode, payload = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            match opcode:
                case Opcode.CLOSE:
                    return None
                case Opcode.PING:
                    await self._send(Opcode.PONG, payload)
                case Opcode.TEXT | Opcode.BINARY | Opcode.CONTINUATION:
                    message += payload
                    if len(message) > _LARGEST_MESSAGE:
                        raise ProtocolError("message too large")
                    if final:
                        return message

    async def send(self, message: bytes) -> None:
        """Return when the connection can take more."""
        await self._send(Opcode.BINARY, message)

    async def close(self) -> None:
        """Say goodbye, wait a moment for the answer, hang up."""
        try:
            await self._send(Opcode.CLOSE, struct.pack("!H", 1000))
            async with asyncio.timeout(_CLOSE_SECONDS):
                while await self.receive() is not None:
                    pass
        except (OSError, TimeoutError, ProtocolError):
            pass
        finally:
            self._writer.close()

    def hang_up(self) -> None:
        self._writer.close()

    async def _frame(self) -> tuple[bool, int, bytes]:
        first, second = await self._reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
        if length > _LARGEST_MESSAGE or not second & 0x80 or first & 0x70:
            raise ProtocolError("not a frame a client may send")
        mask = await self._reader.readexactly(4)
        return bool(first & 0x80), first & 0x0F, unmask(await self._reader.readexactly(length), mask)

    async def _send(self, opcode: Opcode, payload: bytes) -> None:
        length = len(payload)
        if length < 126:
            head = struct.pack("!BB", 0x80 | opcode, length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, length)
        self._writer.write(head + payload)
        await self._writer.drain()


def unmask(payload: bytes, mask: bytes) -> bytes:
    # As one large number: byte by byte it would take a second for ten megabytes.
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
