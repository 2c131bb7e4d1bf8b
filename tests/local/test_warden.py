from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hekla.errors import UsageError
from hekla.local.layout import Layout
from hekla.local.running import clearing, locked
from hekla.node import records
from tests.eventually import eventually
from tests.node.test_switch import waits_for

# The supervisor here leaves something behind: a process that hears no request to stop.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from hekla.errors import UsageError
from hekla.local.layout import Layout
from hekla.local.supervisor import fork_deaf, listen_again
from hekla.local.warden import guard

root, left, stays = Path(sys.argv[1]), *sys.argv[2:]
layout = Layout(root)
layout.prepare()

def wait_for_ever():
    while True:
        signal.pause()

def supervise():
    told, telling = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if left == "orphan" and os.fork():
            os._exit(0)
        os.write(telling, str(os.getpid()).encode())
        wait_for_ever()
    left_behind = int(os.read(told, 20))
    print(json.dumps({"warden": os.getppid(), "supervisor": os.getpid(), "left": left_behind}), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    listen_again()
    wait_for_ever()

if fork_deaf() == 0:
    guard(supervise, layout, temporary=stays == "temporary")
os.wait()
"""


@dataclass(frozen=True)
class Guarded:
    supervisor: int
    warden: int
    left: records.ProcessId


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "data")


@contextlib.contextmanager
def guarded(layout: Layout, *, left: str = "child", stays: str = "") -> Iterator[Guarded]:
    """A supervisor and its warden; returns when the warden is gone, which must be told to end or see the other end."""
    command = [sys.executable, "-c", PROGRAM, layout.root, left, stays]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
        identity = records.process_id(found["left"])
        yield Guarded(found["supervisor"], found["warden"], identity)
        process.wait(60)


@pytest.mark.parametrize("left", ["child", "orphan"])
def test_whatever_a_killed_supervisor_has_started_is_ended(layout: Layout, left: str) -> None:
    with guarded(layout, left=left) as found:
        os.kill(found.supervisor, signal.SIGKILL)
    assert not records.is_alive(found.left)


@pytest.mark.parametrize("left", ["child", "orphan"])
def test_whatever_one_that_ended_by_itself_has_left_is_ended_too(layout: Layout, left: str) -> None:
    with guarded(layout, left=left) as found:
        os.kill(found.warden, signal.SIGTERM)  # it passes that on
    assert not records.is_alive(found.left)


def test_a_supervisor_whose_warden_is_killed_is_told_to_stop(layout: Layout) -> None:
    with guarded(layout) as found:
        supervisor = records.process_id(found.supervisor)
        os.kill(found.warden, signal.SIGKILL)
    eventually(lambda: not records.is_alive(supervisor))
    os.kill(found.left["pid"], signal.SIGKILL)


def test_a_temporary_folder_goes_and_another_stays(layout: Layout) -> None:
    for stays in ("", "temporary"):
        with guarded(layout, stays=stays) as found:
            assert layout.run.is_dir()
            os.kill(found.supervisor, signal.SIGKILL)
        assert layout.root.is_dir() == (stays == "")


def test_after_a_killed_supervisor_its_folder_is_swept_but_not_once_it_is_anothers(layout: Layout) -> None:
    scratch = layout.nodes / "pods" / "one" / "etc"
    scratch.mkdir(parents=True)
    layout.run.mkdir()
    with locked(layout), guarded(layout) as found:
        os.kill(found.supervisor, signal.SIGKILL)
    assert scratch.exists()
    with guarded(layout) as found:
        os.kill(found.supervisor, signal.SIGKILL)
    assert not scratch.exists()


def test_who_comes_while_it_sweeps_waits(layout: Layout) -> None:
    layout.prepare()
    code = (
        "import sys; from pathlib import Path; from hekla.local.layout import Layout; "
        "from hekla.local.running import locked\n"
        "with locked(Layout(Path(sys.argv[1]))): print('mine')"
    )
    with clearing(layout) as ours:
        assert ours
        coming = subprocess.Popen([sys.executable, "-c", code, layout.root], stdout=subprocess.PIPE, text=True)
        eventually(lambda: waits_for(layout.clearing), what="it waits")
    assert coming.communicate(timeout=60)[0] == "mine\n"


def test_whose_sweep_does_not_end_is_told_to_who_waits_for_it_and_how_to_be_rid_of_it(layout: Layout) -> None:
    layout.prepare()
    with clearing(layout), pytest.raises(UsageError) as told, locked(layout, patience=0.1):
        pytest.fail("a data dir that is being cleared was taken")
    where, ourselves = f"--data-dir {layout.root}", os.getpid()
    assert f"(process {ourselves}, " in str(told.value)
    assert f"`kill -9 {ourselves}`, then `hekla down {where}`" in str(told.value)
    with locked(layout):
        pass  # nothing of the waiting stays
