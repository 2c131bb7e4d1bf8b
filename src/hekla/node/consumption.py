"""What containers use now: seconds of CPU so far and memory, of all their processes together.

Told in the words of a kubelet's `/metrics/resource`, so that metrics-server understands them too. A node is a part of
this machine, maybe one of several: what it uses is what its pods use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hekla.node import records
from hekla.node.directory import PodDirectory, all_pods

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Consumption:
    namespace: str
    pod: str
    container: str
    cpu_seconds: float
    memory: int  # bytes


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    cpu_seconds: float
    memory: int


def consumption(data_dir: Path, node: str) -> list[Consumption]:
    """Of every container that runs on this node."""
    running = [found for directory in all_pods(data_dir) for found in _running(directory, node)]
    if not running:
        return []
    below = _Tree(dict(_processes()))
    return [
        Consumption(namespace, pod, container, *below.total(pid)) for namespace, pod, container, pid in sorted(running)
    ]


def as_metrics(containers: Iterable[Consumption]) -> str:
    """For those who ask for figures as Prometheus does."""
    listed = list(containers)
    lines = ["# TYPE container_cpu_usage_seconds_total counter"]
    lines += [f"container_cpu_usage_seconds_total{_labels(each)} {each.cpu_seconds:.2f}" for each in listed]
    lines += ["# TYPE container_memory_working_set_bytes gauge"]
    lines += [f"container_memory_working_set_bytes{_labels(each)} {each.memory}" for each in listed]
    lines += [
        "# TYPE node_cpu_usage_seconds_total counter",
        f"node_cpu_usage_seconds_total {sum(each.cpu_seconds for each in listed):.2f}",
        "# TYPE node_memory_working_set_bytes gauge",
        f"node_memory_working_set_bytes {sum(each.memory for each in listed)}",
    ]
    return "\n".join(lines) + "\n"


def _labels(each: Consumption) -> str:
    return f'{{container="{each.container}",namespace="{each.namespace}",pod="{each.pod}"}}'


def _running(directory: PodDirectory, node: str) -> Iterator[tuple[str, str, str, int]]:
    owner = directory.owner()
    if owner.get("node") != node:
        return
    for container in directory.container_names():
        last = max(directory.attempt_numbers(container), default=None)
        started = None if last is None else directory.start_record(container, last)
        if started is not None and records.is_alive(started["container"]):
            yield owner["namespace"], owner["name"], container, started["container"]["pid"]


class _Tree:
    def __init__(self, processes: dict[int, _Process]) -> None:
        self._processes = processes
        self._children: dict[int, list[int]] = {}
        for pid, process in processes.items():
            self._children.setdefault(process.parent, []).append(pid)

    def total(self, pid: int) -> tuple[float, int]:
        """CPU seconds and bytes of a process and of all below it."""
        seconds, memory, waiting = 0.0, 0, [pid]
        while waiting:
            process = self._processes.get(waiting[-1])
            waiting += self._children.get(waiting.pop(), ())
            if process is not None:
                seconds += process.cpu_seconds
                memory += process.memory
        return seconds, memory


def _processes() -> Iterator[tuple[int, _Process]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            _, resident, shared = map(int, (folder / "statm").read_bytes().split()[:3])
        except (OSError, ValueError):
            continue  # it has just ended
        # Children that have ended, and were waited for, count with their parent.
        ticks = sum(int(fields[at]) for at in (11, 12, 13, 14))
        # What processes share with each other would count as often as there are processes.
        yield int(folder.name), _Process(int(fields[1]), ticks * _TICK, (resident - shared) * _PAGE)
