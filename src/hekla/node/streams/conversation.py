"""A process's streams carried over one connection, whichever of two ways the client speaks.

Over a websocket every message begins with the number of its channel; v5 adds that a client can say that a stream has
ended, without which `kubectl cp` into a pod would never finish. Over SPDY (kubectl before 1.30, API servers before
1.36) each stream is one of its own, named in its headers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from hekla.node.streams.spdy import SpdySession, SpdyStream
from hekla.node.streams.websocket import ProtocolError, WebSocket

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SPDY_PROTOCOLS = ("v4.channel.k8s.io",)
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255
_NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_OPEN_SECONDS = 30.0


@dataclass(frozen=True)
class StreamOptions:
    """Which streams a client wants, in a kubelet's words."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def from_query(cls, found: dict[str, list[str]]) -> StreamOptions:
        wanted = {key: found.get(key, [""])[0] in ("1", "true") for key in ("input", "output", "error", "tty")}
        return cls(
            stdin=wanted["input"],
            stdout=wanted["output"],
            # One terminal has one output.
            stderr=wanted["error"] and not wanted["tty"],
            tty=wanted["tty"],
        )

    @property
    def channels(self) -> set[int]:
        """Those a SPDY client opens before anything begins."""
        wanted = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr, ERROR: True, RESIZE: self.tty}
        return {channel for channel, asked in wanted.items() if asked}


class Conversation(Protocol):
    async def send(self, channel: int, data: bytes) -> None:
        """Return when the connection can take more."""

    async def receive(self) -> tuple[int, bytes] | None:
        """What the client says next, and on which channel (nothing: that channel has ended); None when it has left."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class WebSocketConversation:
    socket: WebSocket

    async def send(self, channel: int, data: bytes) -> None:
        await self.socket.send(bytes([channel]) + data)

    async def receive(self) -> tuple[int, bytes] | None:
        while (message := await self.socket.receive()) is not None:
            if len(message) > 1 and message[0] == _CLOSE:
                return message[1], b""
            if len(message) > 1:
                return message[0], message[1:]
        return None

    async def close(self) -> None:
        await self.socket.close()


@dataclass
class SpdyConversation:
    """Made by `open_spdy`, within whose task group its streams are read."""

    _streams: dict[int, SpdyStream]
    _heard: asyncio.Queue[tuple[int, bytes] | None] = field(default_factory=lambda: asyncio.Queue(1))

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None:
            await stream.write(data)

    async def receive(self) -> tuple[int, bytes] | None:
        return await self._heard.get()

    async def close(self) -> None:
        for channel in (STDOUT, STDERR, ERROR):
            if channel in self._streams:
                await self._streams[channel].close()

    async def listen(self, session: SpdySession) -> None:
        """Until the client leaves."""
        async with asyncio.TaskGroup() as tasks:
            copying = [
                tasks.create_task(self._copy(channel)) for channel in (STDIN, RESIZE) if channel in self._streams
            ]
            while await session.accept() is not None:
                pass  # a stream nobody asked for
            for each in copying:
                each.cancel()
        await self._heard.put(None)

    async def _copy(self, channel: int) -> None:
        while data := await self._streams[channel].read():
            await self._heard.put((channel, data))
        await self._heard.put((channel, b""))


async def open_spdy(session: SpdySession, options: StreamOptions) -> SpdyConversation | None:
    """Wait until the client has opened all it has announced; None when it leaves before."""
    streams: dict[int, SpdyStream] = {}
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            while set(streams) < options.channels:
                stream = await session.accept()
                if stream is None:
                    return None
                streams[_NAMES[stream.headers.get("streamtype", "")]] = stream
    except (KeyError, TimeoutError) as error:
        raise ProtocolError("the client did not open the streams it asked for") from error
    return SpdyConversation(streams)
