"""No room left where the node keeps its pods: they wait and say why, and go on when there is some."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.rig import ACCOUNTS, USER, Rig, exit_code, phase, rig

pytestmark = pytest.mark.root


@contextlib.contextmanager
def small_disk(node: Rig) -> Iterator[Path]:
    """The node's folder on a disk of its own; the file in it that takes all the room."""
    owner = 0 if node.account == "root" else USER
    options = f"size=32m,uid={owner},gid={owner},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", node.data_dir], check=True)
    try:
        yield node.data_dir / "filling"
    finally:
        subprocess.run(["umount", "--lazy", node.data_dir], check=True)


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb") as file:
        while True:
            file.write(b"\0" * 65536)
            file.flush()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk of its own")
@pytest.mark.parametrize("account", ACCOUNTS)
def test_pods_wait_for_room_and_say_so(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            with small_disk(node) as filling:
                # Who has to go when room runs out is another story: here nobody looks.
                await node.start_agent(storage_period=3600)
                await node.create_pod("before", "until [ -e /dev/shm/go ]; do sleep 0.1; done; exit 7")
                await node.running("before")
                fill(filling)
                await node.create_pod("during", "exit 5")
                pod = await node.until("during", lambda pod: "No space left on device" in str(pod.get("status")))
                assert phase(pod) == "Pending"
                filling.unlink()
                assert exit_code(await node.finished("during")) == 5
                assert phase(await node.running("before")) == "Running"
                await node.kill_agent()
                await asyncio.to_thread(node.sweep)

    asyncio.run(main())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk of its own")
def test_a_pod_that_fills_the_disk_is_evicted_and_the_others_go_on() -> None:
    async def main() -> None:
        async with rig("root") as node:
            with small_disk(node):
                await node.start_agent()
                await node.create_pod("modest", "sleep 600")
                await node.running("modest")
                await node.create_pod("greedy", "cat /dev/zero > /var/big; sleep 600")
                pod = await node.finished("greedy")
                assert (pod["status"]["reason"], pod["status"]["message"]) == (
                    "Evicted",
                    "The node was low on resource: ephemeral-storage. ",
                )
                await node.create_pod("next", "exit 3")
                assert exit_code(await node.finished("next")) == 3
                assert phase(await node.running("modest")) == "Running"
                await node.kill_agent()
                await asyncio.to_thread(node.sweep)

    asyncio.run(main())
