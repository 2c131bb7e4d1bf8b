"""What a container used, as the kernel counted it: seconds of CPU, and the most memory.

Where the container had a control group with a memory limit, its memory is that of all its processes together;
elsewhere that of the largest one. The kernel counts a process from its fork on, when it still was a copy of the shim:
what a small container used is then only known to be below that.

The shim uses this module between fork and exec: standard library only.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass

from hekla.node.records import UsedRecord

_PEAKS = ("memory.peak", "memory.max_usage_in_bytes")
_PAGE_SLACK = 1 << 20


@dataclass(frozen=True, slots=True)
class Standing:
    """What a process had used before the container's command took it over."""

    cpu_seconds: float
    memory: int


def standing_of(pid: int) -> Standing:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return Standing(ticks / os.sysconf("SC_CLK_TCK"), _high_water_mark(pid))
    except OSError:
        return Standing(0.0, 0)


def used_by_child(before: Standing, cgroups: Iterable[str]) -> UsedRecord:
    """Of the one child this process has had, which has been waited for; `before`: what of it does not count."""
    counted = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = max(0.0, counted.ru_utime + counted.ru_stime - before.cpu_seconds)
    used: UsedRecord = {"cpuSeconds": round(seconds, 3)}
    peak = _peak(cgroups)
    if peak is not None:
        used["memory"] = peak
    elif counted.ru_maxrss * 1024 > before.memory + _PAGE_SLACK:
        used["memory"] = counted.ru_maxrss * 1024
    else:
        used["memoryBelow"] = counted.ru_maxrss * 1024
    return used


def _high_water_mark(pid: int) -> int:
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _peak(cgroups: Iterable[str]) -> int | None:
    for folder in cgroups:
        for name in _PEAKS:
            try:
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    return int(file.read())
            except (OSError, ValueError):
                continue
    return None
