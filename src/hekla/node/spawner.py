"""The process that shims are forked from: an interpreter with everything they need already loaded.

    agent ── socket ──> spawner ── fork ──> shim of a container (`shim.py`), or of a command in one (`exec_shim.py`)

Forking one that is ready takes a millisecond where starting an interpreter takes thirty, and what shims have in common
they share. The spawner ends with its agent; shims do not: they become init's.

It runs from a sealed copy of the interpreter in memory. A process that is about to become a container's command can be
told to run `/proc/self/exe`, which hands the file it runs from to the container: with the host's own interpreter there,
a pod could replace it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

import hekla
from hekla.errors import HeklaError

_PACKAGE_ROOT = str(Path(hekla.__file__).resolve().parent.parent)
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from hekla.node.spawner import main; main()"
_MOST_DESCRIPTORS = 4
_MFD_EXEC = 0x10
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Task(StrEnum):
    CONTAINER = "container"  # descriptors: the specification, where to answer
    COMMAND = "command"  # descriptors: the three standard streams, the socket to its agent


class SpawnError(HeklaError):
    """Nothing could be started."""


class Spawner:
    """The agent's side. Started when first needed, and again when it has died."""

    def __init__(self, data_dir: Path, started: Callable[[int], None] = lambda _: None) -> None:
        """`started` is told the number of every process that is started, before it forks anything."""
        self._data_dir = data_dir
        self._started = started
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return as soon as it is on its way: requests wait in its socket until it is ready."""
        if self._control is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            program = sealed_copy(os.path.realpath(sys.executable))
            try:
                self._process = subprocess.Popen(
                    # The data directory is here to be seen: it tells whose processes these are.
                    [sys.executable, "-I", "-S", "-c", _BOOT, _PACKAGE_ROOT, str(self._data_dir), str(theirs.fileno())],
                    executable=f"/proc/self/fd/{program}",
                    pass_fds=[theirs.fileno(), program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(program)
        except OSError as error:
            ours.close()
            raise SpawnError(f"no process to start containers from: {error}") from error
        finally:
            theirs.close()
        self._control = ours
        self._started(self._process.pid)

    def fork(self, task: Task, descriptors: list[int]) -> None:
        """Have a shim forked that takes over copies of these descriptors."""
        for last in (False, True):
            self.start()
            assert self._control is not None
            try:
                socket.send_fds(self._control, [task.encode()], descriptors)
                return
            except OSError as error:
                self.close()
                if last:
                    raise SpawnError(f"the process containers are started from is gone: {error}") from error

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.wait()
            self._process = None


def sealed_copy(path: str) -> int:
    """A descriptor of a copy of a program in memory that nobody can change any more."""
    descriptor = _runnable_memory()
    try:
        with open(path, "rb") as source:
            while os.sendfile(descriptor, source.fileno(), None, 1 << 30):
                pass
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _runnable_memory() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        # Said aloud, because a machine may be set up so that memory is not runnable unless somebody says so.
        return os.memfd_create("hekla", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno == errno.EACCES:
            raise SpawnError(
                "this machine forbids running programs from memory, where containers are started from: "
                "set vm.memfd_noexec to 1 (sysctl vm.memfd_noexec=1)"
            ) from error
        if error.errno != errno.EINVAL:
            raise
        # Linux before 6.3 does not know the flag, and forbids nothing.
        return os.memfd_create("hekla", flags)


def main() -> NoReturn:
    """The spawner itself, until its agent goes."""
    control = socket.socket(fileno=int(sys.argv[-1]))
    control.set_inheritable(False)
    os.closerange(3, control.fileno())
    os.closerange(control.fileno() + 1, 4096)
    from hekla.node import exec_shim, shim
    from hekla.node.syscalls import set_process_name

    set_process_name("hekla-spawner")
    # Whoever is forked here is nobody's business but its own: the kernel clears up after it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        task, descriptors, _, _ = socket.recv_fds(control, 64, _MOST_DESCRIPTORS)
        if not task:
            os._exit(0)
        if os.fork() == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                control.close()
                if task.decode() == Task.CONTAINER:
                    shim.run(*descriptors)
                exec_shim.run(*descriptors)
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
