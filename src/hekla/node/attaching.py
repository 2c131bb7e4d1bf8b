"""Being attached to a running container: its shim passes on what it says, and takes what is said to it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct

from hekla.node.commands import STDERR, STDOUT, CommandError
from hekla.node.directory import PodDirectory
from hekla.node.exec import readable, writable
from hekla.node.shim_streams import ATTACH_SOCKET, INPUT, INPUT_ENDS, SIZE

_PIECE = 32 * 1024


async def attach(directory: PodDirectory, container: str, *, stdin: bool) -> Attached:
    """From now on; what it said before is in its log. Raises CommandError with what a person can read."""
    attempts = directory.attempts(container)
    if not attempts or attempts[-1].started is None or attempts[-1].exit is not None:
        raise CommandError(f"container {container} is not running")
    folder = os.open(directory.attempt(container, attempts[-1].number), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    streams: dict[int, socket.socket] = {}
    try:
        for stream in (STDOUT, STDERR):
            streams[stream] = _connect(folder)
            streams[stream].send(bytes([stream]) + (b"i" if stdin and stream == STDOUT else b""))
    except OSError as error:
        for made in streams.values():
            made.close()
        raise CommandError(f"container {container} cannot be attached to: {error.strerror}") from error
    finally:
        os.close(folder)
    return Attached(streams)


def _connect(folder: int) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    try:
        made.connect(f"/proc/self/fd/{folder}/{ATTACH_SOCKET}")
    except OSError:
        made.close()
        raise
    return made


class Attached:
    """One connection for each output; input goes with the first. Whoever has it must `end` it."""

    def __init__(self, streams: dict[int, socket.socket]) -> None:
        self._streams = streams
        self._over = asyncio.Event()

    async def read(self, stream: int) -> bytes:
        made = self._streams.get(stream)
        data = b""
        if made is not None:
            await readable(made.fileno())
            try:
                data = made.recv(_PIECE)
            except OSError:
                pass  # let go of: too slow, or the shim was killed
        if not data and stream == STDOUT:
            self._over.set()
        return data

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            await self._send(bytes([INPUT]) + data[start : start + _PIECE])

    async def _send(self, message: bytes) -> None:
        made = self._streams[STDOUT]
        while True:
            try:
                made.send(message)
                return
            except BlockingIOError:
                await writable(made.fileno())
            except OSError:
                return  # it has ended; whoever reads learns it

    async def end_input(self) -> None:
        """The client has nothing more to say. Whether that ends the container's input is the container's own choice."""
        await self._send(bytes([INPUT_ENDS]))

    async def resize(self, width: int, height: int) -> None:
        await self._send(bytes([SIZE]) + struct.pack("HHHH", height & 0xFFFF, width & 0xFFFF, 0, 0))

    async def wait(self) -> int:
        """Until the container has ended. How is in its status, not for whoever looked on."""
        await self._over.wait()
        return 0

    def end(self) -> None:
        for made in self._streams.values():
            made.close()
