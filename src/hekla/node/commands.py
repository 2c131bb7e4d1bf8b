"""Running a command in a container that is there: its streams, its terminal, how it ended.

What a container's processes are (environment, identity, limits) is kept in memory while the container runs
(`remember`), because environments hold secrets; `start_command` reads it back, in this agent or the next.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from hekla.errors import HeklaError
from hekla.node import records
from hekla.node.directory import PodDirectory
from hekla.node.exec import readable, writable
from hekla.node.exec_shim import ExecSpec
from hekla.node.shim import ContainerSpec, Identity
from hekla.node.spawner import Spawner, SpawnError, Task

STDIN, STDOUT, STDERR = 0, 1, 2
_READ_BYTES = 32 * 1024
_START_SECONDS = 20.0


class CommandError(HeklaError):
    """The command could not be started."""


class _Remembered(TypedDict):
    identity: Identity
    cgroups: list[str]
    env: dict[str, str]
    cwd: str


def remember(directory: PodDirectory, container: str, spec: ContainerSpec) -> None:
    """Keep what another command in this container will need. The folder in memory must be there."""
    kept = _Remembered(identity=spec["identity"], cgroups=spec["cgroups"], env=spec["env"], cwd=spec["cwd"])
    path = directory.kept(container)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    records.write(str(path), kept, durable=False)


async def start_command(
    spawner: Spawner,
    directory: PodDirectory,
    container: str,
    argv: Sequence[str],
    *,
    stdin: bool = False,
    tty: bool = False,
) -> RunningCommand:
    """Return when the command runs. Raises CommandError with what a person can read."""
    spec = _spec(directory, container, argv, tty=tty)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    streams = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    mine = [streams[STDIN][1], streams[STDOUT][0], streams[STDERR][0]]
    others = [streams[STDIN][0], streams[STDOUT][1], streams[STDERR][1]]
    try:
        spawner.fork(Task.COMMAND, [*others, theirs.fileno()])
        ours.send(json.dumps(spec).encode())
    except (OSError, SpawnError) as error:
        for descriptor in mine:
            os.close(descriptor)
        ours.close()
        raise CommandError(f"the command could not be started: {error}") from error
    finally:
        theirs.close()
        for descriptor in others:
            os.close(descriptor)
    command = RunningCommand(ours, dict(enumerate(mine)))
    try:
        async with asyncio.timeout(_START_SECONDS):
            await command.started()
    except BaseException as error:
        command.end()
        if isinstance(error, TimeoutError):
            raise CommandError("the command did not start in time") from error
        raise
    if not stdin and not tty:
        command.close(STDIN)
    return command


async def run_command(
    spawner: Spawner, directory: PodDirectory, container: str, argv: Sequence[str], seconds: float
) -> tuple[int, str]:
    """Run a command to its end; its exit code and the beginning of what it said. TimeoutError when it takes longer."""
    command = await start_command(spawner, directory, container, argv)
    said: dict[int, bytes] = {STDOUT: b"", STDERR: b""}
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            listening = [tasks.create_task(_listen(command, stream, said)) for stream in said]
            code = await command.wait()
            for each in listening:
                each.cancel()
        for stream in said:
            await _listen(command, stream, said)
        return code, b"".join(said.values()).decode(errors="replace")
    finally:
        command.end()


async def _listen(command: RunningCommand, stream: int, said: dict[int, bytes]) -> None:
    while data := await command.read(stream):
        said[stream] = (said[stream] + data)[:_READ_BYTES]


@dataclass
class RunningCommand:
    """Whoever has it must `end` it."""

    _control: socket.socket
    _streams: dict[int, int] = field(default_factory=dict)
    _ended: bool = False

    async def started(self) -> None:
        await readable(self._control.fileno())
        data, descriptors, _, _ = socket.recv_fds(self._control, 4096, 1)
        answer = json.loads(data) if data else {}
        if "pid" not in answer:
            raise CommandError(answer.get("error") or "the command's shim ended without a word")
        if descriptors:
            for stream in list(self._streams):
                self.close(stream)
            self._streams = {STDIN: os.dup(descriptors[0]), STDOUT: descriptors[0]}
        for descriptor in self._streams.values():
            os.set_blocking(descriptor, False)

    async def read(self, stream: int) -> bytes:
        """What it says next on STDOUT or STDERR; nothing when that has ended, or the command has and all is read."""
        descriptor = self._streams.get(stream)
        while descriptor is not None:
            try:
                return os.read(descriptor, _READ_BYTES)
            except BlockingIOError:
                if self._ended:
                    return b""
                await readable(descriptor)
            except OSError:
                return b""  # a terminal nobody is left in
        return b""

    async def write(self, data: bytes) -> None:
        """Pass data to its standard input; dropped where that has been closed."""
        while data:
            descriptor = self._streams.get(STDIN)
            if descriptor is None:
                return
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                await writable(descriptor)
            except OSError:
                self.close(STDIN)

    def close(self, stream: int) -> None:
        descriptor = self._streams.pop(stream, None)
        if descriptor is not None:
            os.close(descriptor)

    async def end_input(self) -> None:
        self.close(STDIN)

    async def resize(self, width: int, height: int) -> None:
        if STDOUT in self._streams:
            size = struct.pack("HHHH", height & 0xFFFF, width & 0xFFFF, 0, 0)
            fcntl.ioctl(self._streams[STDOUT], termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        """Its exit code; 128 and the signal's number where one ended it."""
        await readable(self._control.fileno())
        data = self._control.recv(4096)
        self._ended = True
        return int(json.loads(data)["code"]) if data else 137

    def end(self) -> None:
        """Let go of everything; if it still runs, it is killed."""
        for stream in list(self._streams):
            self.close(stream)
        self._control.close()


def _spec(directory: PodDirectory, container: str, argv: Sequence[str], *, tty: bool) -> ExecSpec:
    kept: _Remembered | None = records.read(str(directory.kept(container)))
    attempts = directory.attempts(container)
    if kept is None or not attempts or attempts[-1].started is None or attempts[-1].exit is not None:
        raise CommandError(f"container {container} is not running")
    env = {"TERM": "xterm", **kept["env"]} if tty else kept["env"]
    return {
        "container": attempts[-1].started["container"],
        "identity": kept["identity"],
        "cgroups": kept["cgroups"],
        "argv": list(argv),
        "env": env,
        "cwd": kept["cwd"],
        "tty": tty,
    }
