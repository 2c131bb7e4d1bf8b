"""`kubectl exec` and `kubectl attach`, as the kubelet's side of them: a process's streams over a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hekla.api.kinds import Obj
from hekla.log import get_logger
from hekla.node.attaching import attach
from hekla.node.commands import CommandError, start_command
from hekla.node.directory import PodDirectory
from hekla.node.spawner import Spawner
from hekla.node.streams.conversation import ERROR, RESIZE, STDERR, STDIN, STDOUT, Conversation, StreamOptions
from hekla.node.streams.websocket import ProtocolError

log = get_logger("node")


class Process(Protocol):
    """A process whose streams somebody has: a command of theirs, or a container they look at."""

    async def read(self, stream: int) -> bytes:
        """What it says next on STDOUT or STDERR; nothing when that has ended."""

    async def write(self, data: bytes) -> None:
        """Pass data to its standard input; dropped where that has been closed."""

    async def end_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    async def wait(self) -> int:
        """Its exit code, as far as it is the client's to know."""

    def end(self) -> None:
        """Let go of everything."""


async def serve_exec(
    conversation: Conversation,
    spawner: Spawner,
    directory: PodDirectory,
    container: str,
    command: Sequence[str],
    options: StreamOptions,
) -> None:
    """Run the command until it ends or the client leaves; then the command is ended too."""
    try:
        process = await start_command(spawner, directory, container, command, stdin=options.stdin, tty=options.tty)
    except CommandError as error:
        await _refuse(conversation, f"error executing command in container: {error}")
        return
    await _serve(conversation, process, options)


async def serve_attach(
    conversation: Conversation, directory: PodDirectory, container: str, options: StreamOptions
) -> None:
    """Show what the container says from now on, and let the client speak to it. It does not end with that."""
    try:
        process = await attach(directory, container, stdin=options.stdin)
    except CommandError as error:
        await _refuse(conversation, f"error attaching to container: {error}")
        return
    await _serve(conversation, process, options)


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


async def _refuse(conversation: Conversation, message: str) -> None:
    text = f"Internal error occurred: {message}"
    details = {"causes": [{"message": message}]}
    failure = {"status": "Failure", "message": text, "reason": "InternalError", "details": details, "code": 500}
    await conversation.send(ERROR, msgspec.json.encode({"metadata": {}, **failure}))
    await conversation.close()


async def _serve(conversation: Conversation, process: Process, options: StreamOptions) -> None:
    try:
        # An empty message says that the command runs, before it says anything itself.
        await conversation.send(STDOUT, b"")
        code = await _converse(conversation, process, options)
        if code is not None:
            await conversation.send(ERROR, msgspec.json.encode(outcome(code)))
    except (OSError, ProtocolError) as error:
        log.info("session broke off", error=error)
    finally:
        process.end()
        await conversation.close()


async def _converse(conversation: Conversation, process: Process, options: StreamOptions) -> int | None:
    """The process's exit code; None when the client left before."""
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(_listen(conversation, process))
        ending = tasks.create_task(_speak(conversation, process, options))
        await asyncio.wait([listening, ending], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        ending.cancel()
    return None if ending.cancelled() else ending.result()


async def _speak(conversation: Conversation, process: Process, options: StreamOptions) -> int:
    wanted = {STDOUT: options.stdout or options.tty, STDERR: options.stderr}
    async with asyncio.TaskGroup() as tasks:
        copying = [tasks.create_task(_pass_on(conversation, process, stream, wanted[stream])) for stream in wanted]
        code = await process.wait()
        for each in copying:
            each.cancel()
    # What is still in the pipes is its own; what children it left behind may say later is not waited for.
    for stream in wanted:
        await _pass_on(conversation, process, stream, wanted[stream])
    return code


async def _pass_on(conversation: Conversation, process: Process, stream: int, wanted: bool) -> None:
    while data := await process.read(stream):
        if wanted:
            await conversation.send(stream, data)


async def _listen(conversation: Conversation, process: Process) -> None:
    while (heard := await conversation.receive()) is not None:
        channel, data = heard
        if channel == STDIN and data:
            await process.write(data)
        elif channel == STDIN:
            await process.end_input()
        elif channel == RESIZE and data:
            await _resize(process, data)


async def _resize(process: Process, data: bytes) -> None:
    try:
        size = msgspec.json.decode(data)
        await process.resize(int(size["Width"]), int(size["Height"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a terminal size: {error}") from error
