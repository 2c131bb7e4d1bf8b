"""Whose folders go when a node is gone, and when: real folders, a real API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hekla.api.kinds import POD
from hekla.api.meta import uid_of
from hekla.local.departed import is_departed
from hekla.node.departed_pods import DepartedPods
from hekla.node.directory import PodDirectory, all_pods
from tests.eventually import soon
from tests.make import pod
from tests.node.rig import ACCOUNTS, Rig, rig
from tests.node.test_kept_logs import in_the_way

PRESENT = "local"


def left_by(node: str, data_dir: Path, uid: str) -> PodDirectory:
    directory = PodDirectory(data_dir, uid)
    directory.claim(pod(uid, uid=uid), node)
    directory.write_exit("main", 0, {"code": 0})
    return directory


def folders(data_dir: Path) -> set[str]:
    return {directory.uid for directory in all_pods(data_dir)}


def clearing(node: Rig, data_dir: Path, looked: Callable[[], None] = lambda: None) -> DepartedPods:
    return DepartedPods(node.client, data_dir, partial(is_departed, present=[PRESENT]), looked, random.Random(1))


def test_of_nodes_that_are_gone_the_folders_go_when_the_pods_do_and_nobody_elses(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[-1]) as node, asyncio.TaskGroup() as tasks:
            wanted = uid_of(await node.create_pod("wanted", nodeName="local-1"))
            left_by("local-1", tmp_path, wanted)
            # Whoever has got to the last of these has passed by the one that is wanted.
            for uid in ("0-gone", "z-gone"):
                left_by("local-1", tmp_path, uid)
            left_by("local-2", tmp_path, "gone-too")
            left_by(PRESENT, tmp_path, "present")
            left_by("laptop", tmp_path, "elsewhere")
            (tmp_path / "pods" / "nobodys").mkdir()
            run = tasks.create_task(clearing(node, tmp_path).run())
            await soon(lambda: not folders(tmp_path) & {"0-gone", "z-gone", "gone-too"}, seconds=20)
            assert folders(tmp_path) == {wanted, "present", "elsewhere", "nobodys"}
            await node.client.delete(POD, "wanted", "default", grace_seconds=0)
            async with asyncio.timeout(20):
                await run

    asyncio.run(main())
    assert folders(tmp_path) == {"present", "elsewhere", "nobodys"}


@pytest.mark.parametrize("record", ["pod.json", "containers/main/0/started.json"])
def test_a_folder_that_would_not_go_is_tried_again_and_stops_no_other(tmp_path: Path, record: str) -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[-1]) as node, asyncio.TaskGroup() as tasks:
            for uid in ("0-gone", "z-gone"):
                left_by("local-1", tmp_path, uid)
            stuck = left_by("local-1", tmp_path, "stuck")
            with in_the_way(stuck.path / record):
                run = tasks.create_task(clearing(node, tmp_path).run())
                await soon(lambda: folders(tmp_path) == {"stuck"}, seconds=20)
            async with asyncio.timeout(20):
                await run

    asyncio.run(main())
    assert folders(tmp_path) == set()


def test_folders_that_could_not_be_looked_for_are_looked_for_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[-1]) as node, asyncio.TaskGroup() as tasks:
            left_by("local-1", tmp_path, "gone")
            pods, looked = tmp_path / "pods", asyncio.Event()
            pods.rename(tmp_path / "aside")
            pods.symlink_to(pods)
            run = tasks.create_task(clearing(node, tmp_path, looked.set).run())
            async with asyncio.timeout(20):
                await looked.wait()
                # At once: a look in between would find none and be content.
                (tmp_path / "link").symlink_to(tmp_path / "aside")
                (tmp_path / "link").rename(pods)
                await run

    asyncio.run(main())
    assert folders(tmp_path) == set()
