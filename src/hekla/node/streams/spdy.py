"""The server's side of SPDY/3.1: many streams over one connection, as Kubernetes' clients use it.

Clients open the streams; the server answers. There is no flow control of single streams, because none of these clients
has one: a stream that nobody reads holds back the connection, and through it the client.

What carries the frames is a connection of its own, or the messages of a websocket (how current kubectl forwards ports).
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from hekla.node.streams.websocket import ProtocolError, WebSocket

_VERSION = 3
_FINAL = 1
_CONTROL = 0x8000
_LARGEST_FRAME = 1 << 20
_LARGEST_HEADERS = 64 << 10
_MOST_STREAMS = 1000
_UNREAD_PIECES = 64
_REFUSED, _CANCELLED = 3, 5

# The words both sides start their compressors with: names and values that were common in HTTP, each with its length.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


class _Frame(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


def _string(text: str) -> bytes:
    return struct.pack("!I", len(text)) + text.encode("latin-1")


DICTIONARY = b"".join(_string(word.replace("_", " ")) for word in _WORDS.split()) + _TAIL.encode()


class Carrier(Protocol):
    async def read_exactly(self, size: int) -> bytes:
        """Raises EOFError when the other side has gone."""

    async def write(self, data: bytes) -> None:
        """Return when the connection can take more. The data is on its way as soon as it is called: all or nothing."""

    def close(self) -> None: ...


@dataclass
class RawCarrier:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read_exactly(self, size: int) -> bytes:
        try:
            return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError from error

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()


@dataclass
class WebSocketCarrier:
    socket: WebSocket
    _rest: bytearray = field(default_factory=bytearray)

    async def read_exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            message = await self.socket.receive()
            if message is None:
                raise EOFError
            self._rest += message
        data = bytes(self._rest[:size])
        del self._rest[:size]
        return data

    async def write(self, data: bytes) -> None:
        await self.socket.send(data)

    def close(self) -> None:
        self.socket.hang_up()


class SpdyStream:
    """One stream a client has opened. Both directions end separately."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers  # names in lower case
        self._session = session
        self._unread: asyncio.Queue[bytes] = asyncio.Queue(_UNREAD_PIECES)
        self._ended = False
        self._closed = False

    async def read(self) -> bytes:
        """What the client sends next; nothing when it has ended the stream."""
        if self._ended and self._unread.empty():
            return b""
        return await self._unread.get()

    async def write(self, data: bytes) -> None:
        if data and not self._closed:
            await self._session.send_data(self.number, data)

    async def close(self) -> None:
        """Say that no more is coming."""
        if not self._closed:
            self._closed = True
            await self._session.send_data(self.number, b"", final=True)

    async def cancel(self) -> None:
        """Say that neither side needs to go on."""
        if not (self._closed and self._ended):
            self._closed = True
            await self._session.send_control(_Frame.RST_STREAM, struct.pack("!II", self.number, _CANCELLED))

    async def take(self, data: bytes, *, final: bool) -> None:
        """For the session: data has come. Waits while nobody reads what came before."""
        if self._ended:
            return
        if data:
            await self._unread.put(data)
        if final:
            await self.finish()

    async def finish(self) -> None:
        if not self._ended:
            self._ended = True
            await self._unread.put(b"")

    def break_off(self) -> None:
        """For the session: nothing more comes or goes; whoever reads learns it after what is already here."""
        self._closed = self._ended = True
        if self._unread.empty():
            self._unread.put_nowait(b"")

    def drop(self) -> None:
        """For the session: nobody reads it any more, so nobody may wait until somebody does."""
        self._closed = self._ended = True
        while not self._unread.empty():
            self._unread.get_nowait()


class SpdySession:
    """`run` reads until the client goes; `accept` gives the streams it opens."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def accept(self) -> SpdyStream | None:
        """The next stream the client opens; None when it has gone."""
        return await self._opened.get()

    def forget(self, stream: SpdyStream) -> None:
        """It is done with: what still comes for it is dropped."""
        self._streams.pop(stream.number, None)
        stream.drop()

    async def run(self) -> None:
        """Raises ProtocolError when the other side does not speak SPDY."""
        try:
            while await self._take_frame():
                pass
        except (EOFError, ConnectionError):
            pass
        finally:
            for stream in self._streams.values():
                stream.break_off()
            self._opened.put_nowait(None)

    async def send_data(self, number: int, data: bytes, *, final: bool = False) -> None:
        head = struct.pack("!II", number, (_FINAL if final else 0) << 24 | len(data))
        await self._carrier.write(head + data)

    async def send_control(self, kind: _Frame, body: bytes) -> None:
        await self._carrier.write(_control_frame(kind, body))

    async def _take_frame(self) -> bool:
        first, second = struct.unpack("!II", await self._carrier.read_exactly(8))
        flags, size = second >> 24, second & 0xFFFFFF
        if size > _LARGEST_FRAME:
            raise ProtocolError("frame too large")
        body = await self._carrier.read_exactly(size)
        if not first >> 31:
            stream = self._streams.get(first)
            if stream is not None:
                await stream.take(body, final=bool(flags & _FINAL))
            return True
        if first >> 16 & 0x7FFF != _VERSION:
            raise ProtocolError("not SPDY/3")
        return await self._take_control(first & 0xFFFF, flags, body)

    async def _take_control(self, kind: int, flags: int, body: bytes) -> bool:
        try:
            match kind:
                case _Frame.SYN_STREAM:
                    await self._open(struct.unpack("!I", body[:4])[0], flags, body[10:])
                case _Frame.RST_STREAM:
                    stream = self._streams.pop(struct.unpack("!I", body[:4])[0], None)
                    if stream is not None:
                        stream.break_off()
                case _Frame.PING:
                    await self.send_control(_Frame.PING, body[:4])
                case _Frame.HEADERS:
                    self._headers(body[4:])  # kept in step: the compressor is one for the whole connection
                case _Frame.GOAWAY:
                    return False
        except struct.error as error:
            raise ProtocolError("frame too short") from error
        return True

    async def _open(self, number: int, flags: int, block: bytes) -> None:
        headers = self._headers(block)
        if len(self._streams) >= _MOST_STREAMS or number in self._streams:
            await self.send_control(_Frame.RST_STREAM, struct.pack("!II", number, _REFUSED))
            return
        stream = SpdyStream(self, number, headers)
        self._streams[number] = stream
        if flags & _FINAL:
            await stream.finish()
        none = self._deflate.compress(struct.pack("!I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self.send_control(_Frame.SYN_REPLY, struct.pack("!I", number) + none)
        self._opened.put_nowait(stream)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, _LARGEST_HEADERS)
        except zlib.error as error:
            raise ProtocolError("headers not compressed as they should be") from error
        if self._inflate.unconsumed_tail:
            raise ProtocolError("headers too large")
        return _parse_headers(plain)


def _parse_headers(plain: bytes) -> dict[str, str]:
    (count,) = struct.unpack_from("!I", plain)
    strings: list[str] = []
    offset = 4
    while offset < len(plain) and len(strings) < 2 * count:
        (size,) = struct.unpack_from("!I", plain, offset)
        strings.append(plain[offset + 4 : offset + 4 + size].decode("latin-1"))
        offset += 4 + size
    if len(strings) != 2 * count or offset > len(plain):
        raise ProtocolError("headers cut short")
    return {name.lower(): value for name, value in zip(strings[::2], strings[1::2], strict=True)}


def _control_frame(kind: _Frame, body: bytes) -> bytes:
    return struct.pack("!HHI", _CONTROL | _VERSION, kind, len(body)) + body
