"""Which cluster, if any, runs on a data dir: the lock that says so, and what its supervisor wrote about itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hekla.errors import UsageError
from hekla.local.layout import Layout, data_dir_flag


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What can be seen of a running cluster from outside."""

    supervisor: int
    components: list[dict[str, object]]

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
    return RunningCluster(0, [])


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Hold a data dir for ourselves: two clusters, or a cluster and a lone node, would take each other's pods away."""
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
        with _turn_to_clear(layout):
            pass
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def clearing(layout: Layout) -> Iterator[bool]:
    """For who clears up after a cluster that was killed: whoever comes to hold the data dir meanwhile waits.

    False where somebody holds it already: then everything there is theirs.
    """
    with _turn_to_clear(layout):
        yield not _is_locked(layout)


@contextlib.contextmanager
def _turn_to_clear(layout: Layout) -> Iterator[None]:
    descriptor = os.open(layout.clearing, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
