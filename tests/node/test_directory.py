from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hekla.api.kinds import POD
from hekla.node.directory import PodDirectory
from hekla.node.hooks.volumes import secret_root
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, rig

ROUNDS = 300


def test_what_pods_have_in_memory_goes_with_the_last_of_them(tmp_path: Path) -> None:
    ended, deleted = PodDirectory(tmp_path, "ended"), PodDirectory(tmp_path, "deleted")
    for each in (ended, deleted):
        each.make_memory()
    ended.remove_scratch()
    assert deleted.memory.is_dir()
    deleted.remove()
    assert not secret_root(tmp_path).exists()


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_node_keeps_nothing_in_memory_for_pods_that_have_ended(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await node.start_agent()
            memory = secret_root(node.data_dir)
            await node.create_pod("short", "exec sleep 1000", terminationGracePeriodSeconds=0)
            await node.running("short")
            assert memory.is_dir()
            await node.client.delete(POD, "short", "default")
            await soon(lambda: not memory.exists(), what="its folder in memory is gone")

    asyncio.run(main())


def test_nobody_else_ever_sees_into_it_however_pods_come_and_go(tmp_path: Path) -> None:
    def come_and_go(uid: str) -> set[int]:
        directory, modes = PodDirectory(tmp_path, uid), set[int]()
        for _ in range(ROUNDS):
            directory.make_memory()
            (directory.memory / "token").write_text("for this pod alone")
            modes.add(directory.memory.parent.stat().st_mode & 0o777)
            directory.remove()
        return modes

    with ThreadPoolExecutor() as pods:
        assert set().union(*pods.map(come_and_go, "abcdefgh")) == {0o700}
    assert not secret_root(tmp_path).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to somebody else")
def test_a_folder_that_somebody_else_made_before_us_is_not_used(tmp_path: Path) -> None:
    folder = secret_root(tmp_path)
    folder.mkdir()
    try:
        os.chown(folder, 54321, 54321)
        with pytest.raises(OSError, match="belongs to somebody else"):
            PodDirectory(tmp_path, "uid").make_memory()
    finally:
        folder.rmdir()
