"""Launching processes: the seam between the node's decisions and the machine.

`start_container` returns when the container's command runs, or with the reason why it does not. The shim it
starts is nobody's child afterwards (`shim.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Protocol

from hekla.errors import HeklaError
from hekla.node import records
from hekla.node.shim import ContainerSpec
from hekla.node.spawner import Spawner, SpawnError, Task

_START_SECONDS = 60.0


class LaunchError(HeklaError):
    """The container could not be set up; nothing of it ran."""


class StillSettingUp(LaunchError):
    """It took too long to wait for. It may run after all: only its claim of the attempt will tell."""


class Launcher(Protocol):
    async def start_container(self, spec: ContainerSpec) -> None:
        """Start an attempt. Returns once its command has taken over; raises LaunchError if nothing ran."""

    async def wait_for_end(self, process: records.ProcessId) -> None:
        """Return when exactly this process is gone."""

    def signal(self, process: records.ProcessId, number: int, *, group: bool = False) -> None:
        """Send a signal, if the process is still there; `group` to everything in its process group."""


class ProcessLauncher:
    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        # More starts at a time would only take turns on the processors and slow each other down.
        self._turns = asyncio.Semaphore(2 * len(os.sched_getaffinity(0)))

    async def start_container(self, spec: ContainerSpec) -> None:
        async with self._turns:
            await self._start(spec)

    async def _start(self, spec: ContainerSpec) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                self._fork(spec, writer)
            finally:
                os.close(writer)
            async with asyncio.timeout(_START_SECONDS):
                answer = await _read_line(reader)
        except TimeoutError:
            raise StillSettingUp("setting the container up took too long") from None
        finally:
            os.close(reader)
        if answer != "started":
            raise LaunchError(answer.removeprefix("error ") or "the container's shim ended without a word")

    def _fork(self, spec: ContainerSpec, answer: int) -> None:
        descriptor = os.memfd_create("hekla-spec")
        try:
            os.write(descriptor, json.dumps(spec).encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            self._spawner.fork(Task.CONTAINER, [descriptor, answer])
        except (OSError, SpawnError) as error:
            raise LaunchError(f"the container's shim could not be started: {error}") from error
        finally:
            os.close(descriptor)

    async def wait_for_end(self, process: records.ProcessId) -> None:
        descriptor = records.open_process(process)
        if descriptor is None:
            return
        try:
            await readable(descriptor)
        finally:
            os.close(descriptor)

    def signal(self, process: records.ProcessId, number: int, *, group: bool = False) -> None:
        descriptor = records.open_process(process)
        if descriptor is None:
            return
        try:
            if group:
                os.killpg(process["pid"], number)
            else:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


async def _read_line(descriptor: int) -> str:
    data = b""
    while not data.endswith(b"\n"):
        await readable(descriptor)
        chunk = os.read(descriptor, 4096)
        if not chunk:
            break
        data += chunk
    return data.decode(errors="replace").strip()


async def readable(*descriptors: int) -> None:
    """Return when one of them has something to read (for a pidfd: the process has ended)."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    for descriptor in descriptors:
        loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)


async def writable(descriptor: int) -> None:
    """Return when it takes data again."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
