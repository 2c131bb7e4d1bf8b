"""Which cluster, if any, runs on a data dir: the lock that says so, and what its supervisor wrote about itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hekla.errors import UsageError
from hekla.local.layout import Layout, data_dir_flag

# Less than who starts a cluster waits for it, to be told the reason.
_PATIENCE_SECONDS = 60.0
_LOCK = "hhqqi4x"  # the kernel's struct flock


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What can be seen of a running cluster from outside."""

    supervisor: int
    components: list[dict[str, object]]
    holder: int = 0
    """The process that holds the data dir, where nobody has written of itself yet: it starts, or is a lone node."""

    @property
    def serves(self) -> bool:
        """Whether its API server is ready, as far as the supervisor knows."""
        return any(part["name"] == "apiserver" and part["ready"] and part["pid"] for part in self.components)


def inspect(data_dir: Path) -> RunningCluster | None:
    """The cluster running on this data dir, if one is."""
    layout = Layout(data_dir)
    if not _is_locked(layout):
        return None
    with contextlib.suppress(OSError, ValueError):
        document = json.loads(layout.status.read_text())
        return RunningCluster(int(document["pid"]), list(document["components"]))
    return RunningCluster(0, [], holder=_locker_of(layout))


@contextlib.contextmanager
def locked(layout: Layout, *, patience: float = _PATIENCE_SECONDS) -> Iterator[None]:
    """Hold a data dir for ourselves: two clusters, or a cluster and a lone node, would take each other's pods away.

    `patience`: for how many seconds to wait for who clears up there.
    """
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            # A record lock: forked components do not inherit it, so it ends with the supervisor alone.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"a cluster or node is already running on {layout.root}: use it (kubeconfig {layout.kubeconfig}), "
                f"stop it with `hekla down{data_dir_flag(layout.root, os.environ)}`, or choose another --data-dir"
            ) from None
        # What a killed run left may just be going: nothing of ours may be there before it is gone.
        with _turn_to_clear(layout, patience):
            pass
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def clearing(layout: Layout) -> Iterator[bool]:
    """For who clears up after a cluster that was killed: whoever comes to hold the data dir meanwhile waits.

    False where somebody holds it already: then everything there is theirs.
    """
    with _turn_to_clear(layout, _PATIENCE_SECONDS):
        yield not _is_locked(layout)


@contextlib.contextmanager
def _turn_to_clear(layout: Layout, patience: float) -> Iterator[None]:
    descriptor = os.open(layout.clearing, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not (_take(descriptor) or _wait_for(descriptor, patience)):
            raise UsageError(_told_of_clearing(layout, _holder_of(descriptor), patience))
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for(descriptor: int, seconds: float) -> bool:
    """Whether the lock is ours within that time. The kernel sets no limit to waiting for one, so a thread does it."""
    import threading

    waiting = threading.Thread(target=fcntl.flock, args=(descriptor, fcntl.LOCK_EX), daemon=True)
    waiting.start()
    waiting.join(seconds)
    return _take(descriptor)


def _holder_of(descriptor: int) -> int:
    """The process that has locked this file; 0 where it is not to be seen."""
    file = os.fstat(descriptor)
    name = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, lock, *rest = line.split()
            if lock == "FLOCK" and rest[3] == name:
                return int(rest[2])
    return 0


def _told_of_clearing(layout: Layout, holder: int, waited: float) -> str:
    told = f"what a killed run left on {layout.root} is still being cleared up after {waited:.0f} s"
    down = f"`hekla down{data_dir_flag(layout.root, os.environ)}`"
    if not holder:
        return f"{told}: wait for it, or choose another --data-dir"
    ways = f"end that with `kill -9 {holder}`, then {down}, which clears up again; or choose another --data-dir"
    return f"{told} (process {holder}, which writes to {layout.log_of('up')}): {ways}"


def _locker_of(layout: Layout) -> int:
    """The process that holds the data dir; 0 where it is not to be seen."""
    try:
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        asked = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_, pid = struct.unpack(_LOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def _is_locked(layout: Layout) -> bool:
    try:
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
