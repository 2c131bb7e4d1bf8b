from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from hekla.errors import UsageError
from hekla.local.supervisor import Component, ComponentFailed, Supervisor
from hekla.log import configure_logging

configure_logging("info")
directory, kind = Path(sys.argv[1]), sys.argv[2]

async def steady(ready):
    ready("word")
    await asyncio.Event().wait()

async def curious(ready):
    ready(" ".join(sorted(os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if int(each) > 2
                          and os.path.exists(f"/proc/self/fd/{each}"))))
    await asyncio.Event().wait()

async def broken(ready):
    raise RuntimeError("no such luck")

async def refusing(ready):
    raise UsageError("no such luck,\\n  not today")

supervisor = Supervisor(directory / "status.json")
supervisor.open()
try:
    names = {"steady": ["a", "b"], "hasty": [f"c{index}" for index in range(40)]}.get(kind, ["a"])
    run = {"broken": broken, "refusing": refusing, "curious": curious}.get(kind, steady)
    kept, other = (os.open(directory / name, os.O_RDWR | os.O_CREAT) for name in ("kept", "other"))
    for name in names:
        supervisor.launch(Component(name, run, directory / f"{name}.log", keeps=(kept,)))
        if kind == "hasty":
            supervisor.stop([name])
    words = {}
    supervisor.wait_until_ready(told=words.__setitem__)
    print(dict(sorted(words.items())), flush=True)
    supervisor.watch()
except ComponentFailed as error:
    print(f"failed: {error}", flush=True)
finally:
    supervisor.close()
print("closed", flush=True)
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with start(tmp_path, "steady") as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "{'a': 'word', 'b': 'word'}"
        yield process


@contextlib.contextmanager
def start(directory: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, str(directory), kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def components(directory: Path) -> dict[str, dict[str, Any]]:
    return {part["name"]: part for part in json.loads((directory / "status.json").read_text())["components"]}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_component_that_is_killed_is_started_again(supervisor: subprocess.Popen[str], tmp_path: Path) -> None:
    before = components(tmp_path)
    os.kill(before["a"]["pid"], signal.SIGKILL)
    after = eventually(lambda: (found := components(tmp_path))["a"]["restarts"] == 1 and found["a"]["ready"] and found)
    assert after["a"]["pid"] != before["a"]["pid"]
    assert after["b"] == before["b"]


def test_the_signals_that_have_upstream_write_what_it_knows_end_nobody(
    supervisor: subprocess.Popen[str], tmp_path: Path
) -> None:
    before = components(tmp_path)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(before["a"]["pid"], number)
        eventually(lambda number=number: number.name in (tmp_path / "a.log").read_text())  # type: ignore[misc]
    assert components(tmp_path) == before


def test_stopping_ends_every_component(supervisor: subprocess.Popen[str], tmp_path: Path) -> None:
    pids = [part["pid"] for part in components(tmp_path).values()]
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(60) == 0
    assert not [pid for pid in pids if is_alive(pid)]


def test_a_component_that_is_to_stop_as_soon_as_it_was_forked_does(tmp_path: Path) -> None:
    with start(tmp_path, "hasty") as process:
        output, _ = process.communicate(timeout=100)
    assert "closed" in output
    assert "component did not stop" not in output


def test_components_stop_when_the_supervisor_is_killed(supervisor: subprocess.Popen[str], tmp_path: Path) -> None:
    pids = [part["pid"] for part in components(tmp_path).values()]
    supervisor.kill()
    eventually(lambda: not [pid for pid in pids if is_alive(pid)])


def test_a_component_that_cannot_start_ends_the_whole_with_its_last_words(tmp_path: Path) -> None:
    with start(tmp_path, "broken") as process:
        output, _ = process.communicate(timeout=100)
    assert "failed: a could not start (exit 1)" in output
    assert "no such luck" in output
    assert "closed" in output


def test_what_cannot_start_is_not_explained_by_what_went_wrong_another_time(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("error: something of yesterday\n")
    with start(tmp_path, "refusing") as process:
        output, _ = process.communicate(timeout=100)
    assert "not today" in output
    assert "yesterday" not in output


def test_a_component_has_open_what_it_is_to_keep_and_nothing_else_of_the_supervisors(tmp_path: Path) -> None:
    with start(tmp_path, "curious") as process:
        assert process.stdout is not None
        word = process.stdout.readline()
    assert str(tmp_path / "kept") in word
    assert str(tmp_path / "other") not in word
