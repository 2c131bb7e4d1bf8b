"""`kubectl port-forward`, as the kubelet's side of it: connections to what listens inside a pod.

kubectl opens two SPDY streams for every connection somebody makes to its port: one for data, one to hear of errors.
Other clients name the ports in a websocket's request and have two numbered channels for each: one connection a port.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hekla.api.meta import count_of
from hekla.node.streams.spdy import SpdySession, SpdyStream
from hekla.node.streams.websocket import ProtocolError, WebSocket

SPDY_PROTOCOLS = ("portforward.k8s.io",)
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
CHANNEL_PROTOCOL = "v4.channel.k8s.io"
_DIAL_SECONDS = 10.0
_PIECE = 32 * 1024

# A socket, not connected yet, in the pod's network.
OpenSocket = Callable[[], socket.socket]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Port:
    """A port of a pod, seen from inside it: programs that listen on its loopback alone are reached as well."""

    number: int
    open_socket: OpenSocket

    async def dial(self) -> Connection:
        """Raises OSError with what a person can read."""
        made = await asyncio.to_thread(self.open_socket)
        made.setblocking(False)
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.number))
            return await asyncio.open_connection(sock=made)
        except BaseException as error:
            made.close()
            if not isinstance(error, OSError):
                raise
            reason = os.strerror(error.errno).lower() if error.errno else str(error) or "timed out"
            raise OSError(f"failed to connect to localhost:{self.number} inside the pod: {reason}") from error


async def serve_streams(session: SpdySession, open_socket: OpenSocket) -> None:
    """Forward connections until the client leaves."""
    waiting: dict[str, SpdyStream] = {}
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(session.run())
        forwarding: set[asyncio.Task[None]] = set()
        while (stream := await session.accept()) is not None:
            request = stream.headers.get("requestid") or stream.headers.get("port", "")
            other = waiting.pop(request, None)
            if other is None:
                waiting[request] = stream
                continue
            task = tasks.create_task(_forward(session, stream, other, open_socket))
            forwarding.add(task)
            task.add_done_callback(forwarding.discard)
        for task in forwarding:
            task.cancel()
        await reading


async def _forward(session: SpdySession, one: SpdyStream, two: SpdyStream, open_socket: OpenSocket) -> None:
    pair = {stream.headers.get("streamtype"): stream for stream in (one, two)}
    if set(pair) != {"data", "error"}:
        raise ProtocolError("a connection needs a stream for data and one for errors")
    data, errors = pair["data"], pair["error"]
    try:
        port = Port(_port_number(data.headers.get("port", "")), open_socket)
        connection = await port.dial()
    except OSError as error:
        await errors.write(str(error).encode())
    else:
        await _join(connection, data.read, data.write, data.close)
    finally:
        for stream in (data, errors):
            await stream.close()
            session.forget(stream)


def _port_number(text: str) -> int:
    number = count_of(text) or 0
    if not 0 < number < 1 << 16:
        raise OSError(f"not a port: {text!r}")
    return number


async def _join(
    connection: Connection,
    read: Callable[[], Awaitable[bytes]],
    write: Callable[[bytes], Awaitable[None]],
    close: Callable[[], Awaitable[None]],
) -> None:
    """Both ways, each until its own end: a client that has said everything may still be listening."""
    reader, writer = connection
    try:
        async with asyncio.TaskGroup() as tasks:
            inwards = tasks.create_task(_inwards(read, writer))
            try:
                while data := await reader.read(_PIECE):
                    await write(data)
            except ConnectionError:
                pass  # the program has gone away; the client sees the end
            await close()
            # Nobody is left to say anything to.
            inwards.cancel()
    finally:
        writer.close()


async def _inwards(read: Callable[[], Awaitable[bytes]], writer: asyncio.StreamWriter) -> None:
    try:
        while data := await read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass  # the other direction tells


async def serve_channels(websocket: WebSocket, ports: Sequence[int], open_socket: OpenSocket) -> None:
    """One connection to each of the ports, over numbered channels; each begins by naming its port."""
    inboxes: list[asyncio.Queue[bytes]] = [asyncio.Queue(64) for _ in ports]
    for index, number in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await websocket.send(bytes([channel]) + struct.pack("<H", number))
    async with asyncio.TaskGroup() as tasks:
        serving = [
            tasks.create_task(_serve_channel(websocket, index, Port(number, open_socket), inboxes[index]))
            for index, number in enumerate(ports)
        ]
        listening = tasks.create_task(_sort(websocket, inboxes))
        listening.add_done_callback(lambda _: [each.cancel() for each in serving])
        await asyncio.wait(serving)
        listening.cancel()
    await websocket.close()


async def _sort(websocket: WebSocket, inboxes: Sequence[asyncio.Queue[bytes]]) -> None:
    while (message := await websocket.receive()) is not None:
        if len(message) > 1 and message[0] % 2 == 0 and message[0] // 2 < len(inboxes):
            await inboxes[message[0] // 2].put(message[1:])


async def _serve_channel(websocket: WebSocket, index: int, port: Port, inbox: asyncio.Queue[bytes]) -> None:
    async def write(data: bytes) -> None:
        await websocket.send(bytes([2 * index]) + data)

    async def close() -> None:
        """A channel cannot be closed by itself: the websocket is, when all of them are done."""

    try:
        connection = await port.dial()
    except OSError as error:
        await websocket.send(bytes([2 * index + 1]) + str(error).encode())
        return
    await _join(connection, inbox.get, write, close)
