from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from hekla.node.cleanup import sweep
from hekla.node.directory import PodDirectory
from tests.e2e.local_cluster import processes_of
from tests.node.rig import rig


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount something")
def test_what_the_folder_of_one_pod_refuses_leaves_nothing_of_another_running() -> None:
    async def main() -> None:
        async with rig("root") as node:
            await node.start_agent()
            directories = []
            for name in ("one", "two"):
                await node.create_pod(name, "sleep 1000")
                pod = await node.running(name)
                directories.append(PodDirectory(node.data_dir, pod["metadata"]["uid"]))
            await node.kill_agent()
            volumes = [directory.path / "volumes" for directory in directories]
            for folder in volumes:
                folder.mkdir(exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "in-the-way", folder], check=True)
            try:
                report = await asyncio.to_thread(sweep, node.data_dir)
            finally:
                for folder in volumes:
                    subprocess.run(["umount", folder], check=True)
            assert report.containers == 2
            assert len(report.left) == 2
            assert all("Device or resource busy" in each for each in report.left)
            assert processes_of(node.data_dir) == []

    asyncio.run(main())
