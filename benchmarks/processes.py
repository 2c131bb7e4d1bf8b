"""What a running process has cost so far: CPU time of all its threads, and the most memory it held."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

_WINDOW_SECONDS = 0.5
# Timers and keep-alives cost a little even when there is nothing to do.
_IDLE_SHARE = 0.02


def cpu_seconds(*pids: int) -> float:
    """Exact to microseconds, unlike the ticks of /proc/PID/stat; threads that have ended are not counted."""
    return sum(_thread_seconds(thread) for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir())


def peak_megabytes(pid: int) -> float:
    return _status_megabytes(pid, "VmHWM:")


def megabytes(pid: int) -> float:
    """What it holds now."""
    return _status_megabytes(pid, "VmRSS:")


def children_named(name: str) -> list[int]:
    """Processes of that name that this process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = stat.read_text().partition(" (")
            comm, _, fields = rest.rpartition(") ")
            if comm == name[:15] and int(fields.split()[1]) == os.getpid():
                found.append(int(pid))
    return found


def unused_seconds() -> float:
    """CPU seconds that no process of this machine had a use for, all cores together, since it started."""
    cores = Path("/proc/stat").read_text().partition("\n")[0].split()
    idle, waiting_for_disk = map(int, cores[4:6])
    return (idle + waiting_for_disk) / os.sysconf("SC_CLK_TCK")


async def until_idle(pid: int, *, seconds: float = 120.0) -> float:
    """Wait until the process has nothing to do. Returns when that began, on the loop's clock."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        while True:
            began, used = loop.time(), cpu_seconds(pid)
            await asyncio.sleep(_WINDOW_SECONDS)
            if cpu_seconds(pid) - used < _IDLE_SHARE * (loop.time() - began):
                return began


def _thread_seconds(thread: Path) -> float:
    with contextlib.suppress(OSError):
        return int((thread / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


def _status_megabytes(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0
