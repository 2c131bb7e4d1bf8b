"""Files that a container wrote where it worked are counted, in its view of that folder and nowhere else."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from hekla.api.core import POD_USED
from hekla.node.left_files import left_files
from tests.node.rig import ACCOUNTS, rig


@pytest.fixture
def view(tmp_path: Path) -> Path:
    """A container's view of the folder /usr, into which it has written nothing yet."""
    folder = tmp_path / "upper" / "usr"
    folder.mkdir(parents=True)
    return folder


def test_files_and_their_bytes_are_counted_but_not_what_python_compiled(view: Path) -> None:
    (view / "deep").mkdir()
    (view / "deep" / "checkpoint").write_bytes(bytes(1000))
    (view / "log").write_bytes(bytes(24))
    (view / "__pycache__").mkdir()
    (view / "__pycache__" / "model.pyc").write_bytes(bytes(5))
    (view / "link").symlink_to("log")
    assert left_files(str(view.parents[1]), "/usr") == {"filesLeft": 2, "bytesLeft": 1024}


@pytest.mark.parametrize("folder", ["/", "", "/no/such/folder", "/usr", "/etc"])
def test_where_there_is_nothing_nothing_is_told(view: Path, folder: str) -> None:
    assert left_files(str(view.parents[1]), folder) == {}


def test_folders_too_deep_to_be_looked_through_cost_nothing_but_the_count(view: Path) -> None:
    (view / "log").write_bytes(bytes(24))
    descriptor = os.open(view, os.O_PATH)
    for _ in range(1100):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_PATH, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    try:
        left_files(str(view.parents[1]), "/usr")
    finally:
        # Deeper than pytest's own clean-up goes.
        subprocess.run(["rm", "-rf", view], check=True)


def test_a_link_in_the_folders_place_is_not_followed(view: Path) -> None:
    view.rmdir()
    view.symlink_to("/etc")
    assert left_files(str(view.parents[1]), "/usr") == {}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_pods_status_has_what_it_wrote_where_it_worked(account: str) -> None:
    asyncio.run(_write(account))


async def _write(account: str) -> None:
    async with rig(account) as node:
        await node.start_agent()
        script = "echo result > here; echo other > /tmp/there"
        await node.create_pod("writer", script, container={"workingDir": "/usr"})
        pod = await node.finished("writer")
    used = next(each["message"] for each in pod["status"]["conditions"] if each["type"] == POD_USED)
    told = json.loads(used)["main"]
    assert (told["filesLeft"], told["bytesLeft"]) == (1, len("result\n"))
