"""`kubectl exec` as the kubelet's side of it: a command's streams as numbered channels of a websocket.

Every message begins with its channel. v5 adds one thing to v4: the client can say that a stream has ended, without
which `kubectl cp` into a pod would never finish.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qs

import msgspec

from hekla.api.kinds import Obj
from hekla.log import get_logger
from hekla.node.commands import STDERR, STDIN, STDOUT, CommandError, RunningCommand, start_command
from hekla.node.directory import PodDirectory
from hekla.node.websocket import ProtocolError, WebSocket

log = get_logger("node")

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_ERROR, _RESIZE, _CLOSE = 3, 4, 255


@dataclass(frozen=True)
class ExecOptions:
    """What was asked for, in a kubelet's words."""

    command: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def from_query(cls, query: str) -> ExecOptions:
        found = parse_qs(query, keep_blank_values=True)
        wanted = {key: found.get(key, [""])[0] in ("1", "true") for key in ("input", "output", "error", "tty")}
        return cls(
            command=tuple(found.get("command", ())),
            stdin=wanted["input"],
            stdout=wanted["output"],
            # One terminal has one output.
            stderr=wanted["error"] and not wanted["tty"],
            tty=wanted["tty"],
        )


async def serve_command(socket: WebSocket, directory: PodDirectory, container: str, options: ExecOptions) -> None:
    """Run the command over the websocket until it ends or the client leaves; then the command is ended too."""
    try:
        command = await start_command(directory, container, options.command, stdin=options.stdin, tty=options.tty)
    except CommandError as error:
        await socket.send(bytes([_ERROR]) + msgspec.json.encode(not_started(str(error))))
        await socket.close()
        return
    try:
        # An empty message says that the command runs, before it says anything itself.
        await socket.send(bytes([STDOUT]))
        code = await _converse(socket, command, options)
        if code is not None:
            await socket.send(bytes([_ERROR]) + msgspec.json.encode(outcome(code)))
    except (OSError, ProtocolError) as error:
        log.info("exec session broke off", error=error)
    finally:
        command.end()
        await socket.close()


def outcome(code: int) -> Obj:
    """How a command ended, as the Status clients know how to read."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def not_started(message: str) -> Obj:
    text = f"Internal error occurred: error executing command in container: {message}"
    details = {"causes": [{"message": f"error executing command in container: {message}"}]}
    failure = {"status": "Failure", "message": text, "reason": "InternalError", "details": details, "code": 500}
    return {"metadata": {}, **failure}


async def _converse(socket: WebSocket, command: RunningCommand, options: ExecOptions) -> int | None:
    """The command's exit code; None when the client left before."""
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(_listen(socket, command))
        ending = tasks.create_task(_speak(socket, command, options))
        await asyncio.wait([listening, ending], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        ending.cancel()
    return None if ending.cancelled() else ending.result()


async def _speak(socket: WebSocket, command: RunningCommand, options: ExecOptions) -> int:
    wanted = {STDOUT: options.stdout or options.tty, STDERR: options.stderr}
    async with asyncio.TaskGroup() as tasks:
        copying = [tasks.create_task(_pass_on(socket, command, stream, wanted[stream])) for stream in wanted]
        code = await command.wait()
        for each in copying:
            each.cancel()
    # What is still in the pipes is its own; what children it left behind may say later is not waited for.
    for stream in wanted:
        await _pass_on(socket, command, stream, wanted[stream])
    return code


async def _pass_on(socket: WebSocket, command: RunningCommand, stream: int, wanted: bool) -> None:
    while data := await command.read(stream):
        if wanted:
            await socket.send(bytes([stream]) + data)


async def _listen(socket: WebSocket, command: RunningCommand) -> None:
    while (message := await socket.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == STDIN:
            await command.write(data)
        elif channel == _CLOSE and data[:1] == bytes([STDIN]):
            command.close(STDIN)
        elif channel == _RESIZE:
            _resize(command, data)


def _resize(command: RunningCommand, data: bytes) -> None:
    try:
        size = msgspec.json.decode(data)
        command.resize(int(size["Width"]), int(size["Height"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a terminal size: {error}") from error
