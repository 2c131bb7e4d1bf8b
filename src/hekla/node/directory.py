"""A pod's place on disk: where its records, files and scratch space are, and reading back what they say."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hekla.api.kinds import JOB, Obj
from hekla.api.meta import controller_of_kind, name_of, namespace_of, uid_of
from hekla.node import records
from hekla.node.hooks.gpus import Assignment, Holding
from hekla.node.hooks.volumes import is_in_memory, secret_root
from hekla.node.runtime import Attempt
from hekla.node.user_ids import remove_as_root_of_own_namespace

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class PodDirectory:
    """`pods/<uid>` below a data directory."""

    data_dir: Path
    uid: str

    def __post_init__(self) -> None:
        if not _SAFE_NAME.fullmatch(self.uid):
            raise ValueError(f"not a uid: {self.uid!r}")

    @property
    def path(self) -> Path:
        return self.data_dir / "pods" / self.uid

    @property
    def etc(self) -> Path:
        return self.path / "etc"

    @property
    def memory(self) -> Path:
        return secret_root(self.data_dir) / self.uid

    def make_memory(self) -> None:
        """Make the pod's place in memory, in a folder that nobody else may have made before us.

        That folder goes with the last pod, which may be just now: then it is made again.
        """
        memory = self.memory
        while True:
            with contextlib.suppress(FileExistsError):
                memory.parent.mkdir(mode=0o700)
            with contextlib.suppress(FileNotFoundError):
                _refuse_foreign(memory.parent)
                memory.mkdir(exist_ok=True)
                return

    def claim(self, pod: Obj, node: str) -> None:
        """Make the place, saying whose it is. Nothing of a pod exists on the machine before this."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.path / "pod.json").exists():
            record = {
                "uid": uid_of(pod),
                "namespace": namespace_of(pod),
                "name": name_of(pod),
                "node": node,
                "job": _job_of(pod),
            }
            records.write(str(self.path / "pod.json"), record, durable=False)

    def owner(self) -> dict[str, Any]:
        found: dict[str, Any] = records.read(str(self.path / "pod.json")) or {}
        return found

    def claimed_at(self) -> int:
        """When the pod came here, in nanoseconds; 0 when nothing is left that tells."""
        try:
            return (self.path / "pod.json").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def sandbox(self) -> dict[str, Any]:
        found: dict[str, Any] = records.read(str(self.path / "sandbox.json")) or {}
        return found

    def volume(self, volume: Obj) -> Path:
        name = checked(volume["name"])
        return self.memory / name if is_in_memory(volume) else self.path / "volumes" / name

    def gpus(self) -> Assignment:
        """The devices its containers have, by container."""
        found: dict[str, Holding | list[int]] = records.read(str(self.path / "gpus.json")) or {}
        # Agents of the version before wrote the devices alone, and their pods may still be running.
        return {name: Holding(devices=held, part=0) if isinstance(held, list) else held for name, held in found.items()}

    def write_gpus(self, assignment: Assignment) -> None:
        records.write(str(self.path / "gpus.json"), assignment, durable=False)

    def give_back_gpus(self) -> None:
        (self.path / "gpus.json").unlink(missing_ok=True)

    def kept(self, container: str) -> Path:
        """Where the container's environment is remembered while it runs. No volume's name begins with a dot."""
        return self.memory / ".containers" / checked(container)

    def attempt(self, container: str, number: int) -> Path:
        return self.path / "containers" / checked(container) / str(number)

    def log(self, container: str, number: int) -> Path:
        return self.attempt(container, number) / "log"

    def container_names(self) -> list[str]:
        folder = self.path / "containers"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def attempts(self, container: str) -> tuple[Attempt, ...]:
        """Every attempt that has a record, oldest first."""
        found = []
        for number in self.attempt_numbers(container):
            started, exit_ = self.start_record(container, number), self.exit_record(container, number)
            if started or exit_:
                moment = (started or exit_ or {}).get("startedAt", "")
                found.append(Attempt(number, str(moment), started, exit_))
        return tuple(found)

    def attempt_numbers(self, container: str) -> list[int]:
        folder = self.path / "containers" / checked(container)
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()) if folder.is_dir() else []

    def start_record(self, container: str, number: int) -> records.StartRecord | None:
        found: records.StartRecord | None = records.read(str(self.attempt(container, number) / "started.json"))
        return found

    def exit_record(self, container: str, number: int) -> records.ExitRecord | None:
        found: records.ExitRecord | None = records.read(str(self.attempt(container, number) / "exit.json"))
        return found

    def write_exit(self, container: str, number: int, record: records.ExitRecord) -> None:
        folder = self.attempt(container, number)
        folder.mkdir(parents=True, exist_ok=True)
        records.write(str(folder / "exit.json"), record)

    def remove_scratch(self) -> None:
        """Everything but records and logs: what containers wrote, volumes, secrets, the sandbox's record."""
        for name in self.container_names():
            for number in self.attempt_numbers(name):
                remove_tree(self.attempt(name, number) / "scratch")
        remove_tree(self.path / "volumes")
        self._remove_memory()
        remove_tree(self.etc)
        (self.path / "sandbox.json").unlink(missing_ok=True)
        self.give_back_gpus()

    def remove(self) -> None:
        self._remove_memory()
        remove_tree(self.path)

    def _remove_memory(self) -> None:
        memory = self.memory
        remove_tree(memory)
        # Nobody sweeps after a node that is alone, and what the folder belonged to is not to be seen from its name.
        with contextlib.suppress(OSError):  # other pods are in it
            memory.parent.rmdir()


def all_pods(data_dir: Path) -> list[PodDirectory]:
    try:
        entries = sorted((data_dir / "pods").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [PodDirectory(data_dir, entry.name) for entry in entries if entry.is_dir()]


def find_pod(data_dir: Path, node: str, namespace: str, name: str) -> PodDirectory | None:
    """The newest pod of that name on this node: an older one may still be on its way out."""
    found = []
    for directory in all_pods(data_dir):
        owner = directory.owner()
        if (owner.get("namespace"), owner.get("name"), owner.get("node")) == (namespace, name, node):
            found.append((directory.path.stat().st_ctime_ns, directory))
    return max(found, key=lambda each: each[0])[1] if found else None


def remove_tree(path: Path) -> None:
    """Delete a tree whose folders may be closed to us (an overlay's working folder has no permissions at all)."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    elif path.exists():
        try:
            if sys.version_info >= (3, 12):
                shutil.rmtree(path, onexc=_open_and_retry)
            else:
                shutil.rmtree(path, onerror=_open_and_retry)
        except OSError:
            # Written under another of the pods' ids, when an ordinary user is who we are.
            if os.geteuid() == 0 or not remove_as_root_of_own_namespace(path):
                raise


def _refuse_foreign(folder: Path) -> None:
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise OSError(0, f"{folder} belongs to somebody else")


def _open_and_retry(function: Callable[..., Any], path: str, _: Any) -> None:
    # Never through a link: only the folder itself and the one it is in are opened up.
    for folder in (Path(path).parent, Path(path)):
        try:
            if stat.S_ISDIR(folder.lstat().st_mode):
                os.chmod(folder, 0o700, follow_symlinks=True)  # noqa: PTH101
        except OSError:
            pass
    try:
        if function in (os.rmdir, os.unlink):
            function(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    except FileNotFoundError:
        pass


def _job_of(pod: Obj) -> dict[str, str] | None:
    """Name and uid of the Job whose pod it is. Owners are what anybody wrote: an odd uid is nobody's."""
    owner = controller_of_kind(pod, JOB) or {}
    uid = str(owner.get("uid", ""))
    return {"name": str(owner.get("name", "")), "uid": uid} if _SAFE_NAME.fullmatch(uid) else None


def checked(name: str) -> str:
    """The name, which may be part of a path. Raises ValueError for one that may not."""
    if not _SAFE_NAME.fullmatch(name):
        raise ValueError(f"not a name: {name!r}")
    return name
