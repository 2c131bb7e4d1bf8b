"""The process shims come from: a copy nobody can change, and one that is replaced when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hekla.node.spawner import Spawner, Task, sealed_copy


def test_the_copy_is_whole_and_cannot_be_written_to() -> None:
    copy = sealed_copy(sys.executable)
    try:
        assert os.pread(copy, 1 << 26, 0) == Path(sys.executable).read_bytes()
        with pytest.raises(PermissionError):
            os.pwrite(copy, b"#!/bin/sh", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(copy, 0)
    finally:
        os.close(copy)


def test_one_that_was_killed_is_replaced(tmp_path: Path) -> None:
    started: list[int] = []
    spawner = Spawner(tmp_path, started.append)
    try:
        assert _answer(spawner) == b"error "
        os.kill(started[0], signal.SIGKILL)
        os.waitid(os.P_PID, started[0], os.WEXITED | os.WNOWAIT)
        assert _answer(spawner) == b"error "
        assert len(started) == 2
    finally:
        spawner.close()


def _answer(spawner: Spawner) -> bytes:
    """How the answer to a container that cannot be begins: its sandbox is not there."""
    specification = os.memfd_create("specification")
    os.write(specification, b'{"identity": {"pause": {"pid": 1, "start": 0, "boot": ""}, "user_namespace": false}}')
    os.lseek(specification, 0, os.SEEK_SET)
    reader, writer = os.pipe()
    spawner.fork(Task.CONTAINER, [specification, writer])
    os.close(specification)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read()[:6]


_UNDER_A_SETTING = """
import os, sys
from pathlib import Path
from hekla.node import syscalls as sys_
from hekla.node.spawner import Spawner, SpawnError

# The setting belongs to a pid namespace: the machine's own stays as it is.
sys_.unshare(sys_.CLONE_NEWPID)
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
Path("/proc/sys/vm/memfd_noexec").write_text(sys.argv[1])
try:
    Spawner(Path("/tmp")).start()
    print("started")
except SpawnError as error:
    print(error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="the setting is root's")
@pytest.mark.parametrize(("setting", "said"), [("1", "started"), ("2", "set vm.memfd_noexec to 1")])
def test_where_memory_is_not_runnable_unasked_it_is_asked_for_or_the_remedy_is_told(setting: str, said: str) -> None:
    command = [sys.executable, "-c", _UNDER_A_SETTING, setting]
    assert said in subprocess.run(command, capture_output=True, text=True, check=True).stdout
