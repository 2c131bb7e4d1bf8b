"""Pods that write more than they may, or more than the machine has, are evicted: as a kubelet would, in its words.

Looked at every few seconds. What single pods use is counted only where somebody set a limit, or when room runs out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hekla.api.kinds import Obj
from hekla.api.quantity import whole
from hekla.node.directory import PodDirectory
from hekla.node.hooks.volumes import secret_root
from hekla.node.runtime import init_containers, main_containers

_LEAST_FREE_SHARE = 0.05
_LEAST_FREE_BYTES = 1 << 30
_BLOCK = 512


class Evictable(Protocol):
    """A pod that is on this node."""

    @property
    def directory(self) -> PodDirectory: ...

    @property
    def pod(self) -> Obj: ...

    def evict(self, message: str) -> None: ...


@dataclass(frozen=True)
class StorageKeeper:
    data_dir: Path
    pods: Callable[[], Iterable[Evictable]]
    period: float  # seconds between two looks

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.period)
            # Walking through folders may take its time; the verdicts are spoken in the loop.
            present = list(self.pods())
            for each, message in await asyncio.to_thread(verdicts, self.data_dir, present):
                each.evict(message)


def verdicts(data_dir: Path, present: list[Evictable]) -> list[tuple[Evictable, str]]:
    """Who has to go, and why: all who are over their limits; if none is and room runs out, who uses most."""
    over = [(each, message) for each in present if (message := over_limit(each.pod, each.directory))]
    if over:
        return over
    for folder in (data_dir, secret_root(data_dir)):
        if present and (lacking := runs_out(folder)):
            largest = max(present, key=lambda each: used(each.directory.path) + used(each.directory.memory))
            return [(largest, f"The node was low on resource: {lacking}. ")]
    return []


def over_limit(pod: Obj, directory: PodDirectory) -> str:
    """What the pod uses beyond what it may; empty when nothing."""
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit and used(directory.volume(volume)) > whole(limit):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    containers = init_containers(pod) + main_containers(pod)
    limits = {each["name"]: _limit(each) for each in containers}
    for name, limit in limits.items():
        if limit and used(directory.path / "containers" / name) > whole(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def runs_out(folder: Path) -> str:
    """What there is too little left of where this folder is; empty when there is enough, or no such folder."""
    try:
        found = os.statvfs(folder)
    except FileNotFoundError:
        return ""
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    if free < min(size * _LEAST_FREE_SHARE, _LEAST_FREE_BYTES):
        return "ephemeral-storage"
    # File systems that make inodes as they go say that they have none.
    if found.f_files and found.f_favail < found.f_files * _LEAST_FREE_SHARE:
        return "inodes"
    return ""


def used(path: Path) -> int:
    """Bytes on disk below a path. Links are not followed, and what vanishes meanwhile does not count."""
    total = 0
    pending = [str(path)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return total


def _limit(container: Obj) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get("ephemeral-storage") or "")
