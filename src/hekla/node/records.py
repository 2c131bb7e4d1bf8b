"""What the node must still know after a kill -9: small JSON files, replaced whole, on disk before they are relied on.

    pods/<uid>/pod.json                          whose it is
    pods/<uid>/sandbox.json                      the process that holds the pod's namespaces, and its address
    pods/<uid>/containers/<name>/<n>/started.json    attempt n was started: written before its command runs
    pods/<uid>/containers/<name>/<n>/exit.json       how it ended: written before anybody is told
    pods/<uid>/containers/<name>/<n>/log             what it said

A process is named by pid, start time and boot, so a recycled pid is never mistaken for it. The shim uses this module
between fork and exec: standard library only.
"""

from __future__ import annotations

import json
import os
import select
from typing import Any, TypedDict

_RESERVED = ".reserved"
_RESERVED_BYTES = 16 * 1024  # more than the longest last words of a container, written as JSON


class ProcessId(TypedDict):
    pid: int
    start: int  # clock ticks after boot
    boot: str


class StartRecord(TypedDict):
    shim: ProcessId
    container: ProcessId
    startedAt: str


class UsedRecord(TypedDict, total=False):
    cpuSeconds: float
    memory: int  # bytes at most
    memoryBelow: int  # in its place, where it is only known to be less
    filesLeft: int  # written where it worked, and gone with it
    bytesLeft: int


class ExitRecord(TypedDict, total=False):
    code: int
    signal: int
    reason: str
    message: str
    startedAt: str
    finishedAt: str
    used: UsedRecord


def write(path: str, record: Any, *, exclusive: bool = False, durable: bool = True) -> bool:
    """Put a record on disk, whole or not at all. `exclusive`: False when there is one already.

    Not `durable`: what names living processes needs to outlive ours, but not the machine.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, json.dumps(record).encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        if exclusive:
            os.link(temporary, path)
        else:
            os.rename(temporary, path)
    except FileExistsError:
        return False
    finally:
        if exclusive:
            os.unlink(temporary)
    if durable:
        _sync_directory(os.path.dirname(path))
    return True


def reserve(path: str) -> None:
    """Take the room a record will need, for one that must not fail to be written when the disk is full."""
    descriptor = os.open(path + _RESERVED, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, bytes(_RESERVED_BYTES))
    finally:
        os.close(descriptor)


def write_reserved(path: str, record: Any) -> None:
    """Put a durable record where room was reserved for it; like any other where none was, or too little."""
    data = json.dumps(record).encode()
    try:
        descriptor = os.open(path + _RESERVED, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        write(path, record)
        return
    try:
        # In place, then cut to size: blocks that are there already are used.
        os.write(descriptor, data.ljust(_RESERVED_BYTES))
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(path + _RESERVED, path)
    _sync_directory(os.path.dirname(path))


def read(path: str) -> Any:
    """The record, or None where there is none (or one that a crash of an older kind left unreadable)."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def process_id(pid: int) -> ProcessId:
    """The lasting name of a process that is alive now."""
    return {"pid": pid, "start": _start_time(pid), "boot": _boot_id()}


def open_process(process: ProcessId) -> int | None:
    """A pidfd of exactly this process; None when it is gone. The caller closes it."""
    if process["boot"] != _boot_id():
        return None
    try:
        descriptor = os.pidfd_open(process["pid"])
    except (ProcessLookupError, ValueError):
        return None
    try:
        if _start_time(process["pid"]) == process["start"] and not select.select([descriptor], [], [], 0)[0]:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def is_alive(process: ProcessId) -> bool:
    descriptor = open_process(process)
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def _start_time(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The second field is the program's name in parentheses and may contain anything.
        return int(file.read().rpartition(b")")[2].split()[19])


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
