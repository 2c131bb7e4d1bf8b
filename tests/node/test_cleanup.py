from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hekla.node import records, uplink
from hekla.node.cleanup import sweep
from hekla.node.directory import PodDirectory
from tests.e2e.local_cluster import processes_of
from tests.node.rig import USER, as_account, environment, rig, sweep_as


@pytest.fixture
def pod() -> Iterator[PodDirectory]:
    """Not below pytest's own folder, which is closed to an ordinary user."""
    made = Path(tempfile.mkdtemp(prefix="hekla-cleanup-"))
    directory = PodDirectory(made, "one")
    directory.path.mkdir(parents=True)
    yield directory
    shutil.rmtree(made)


@contextmanager
def container_of(pod: PodDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """A process of an ordinary user's that is on record as the pod's container; everything there is that user's."""
    waiting = [*as_account("user"), "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, env=environment(pod.data_dir), cwd="/") as process:
        attempt = pod.attempt("main", 0)
        attempt.mkdir(parents=True)
        identity = records.process_id(process.pid)
        started = {"shim": identity, "container": identity, "startedAt": "2026-01-01T00:00:00Z"}
        records.write(str(attempt / "started.json"), started)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{USER}:{USER}", pod.data_dir], check=True)
        try:
            yield process
        finally:
            process.kill()


def test_pods_are_ended_though_the_machines_network_cannot_be_put_back(pod: PodDirectory) -> None:
    # Only root may change that, and it is an ordinary user who sweeps.
    boot = records.process_id(os.getpid())["boot"]
    records.write(str(pod.data_dir / uplink.RECORD), {"name": uplink.link_name(pod.data_dir), "boot": boot})
    with container_of(pod) as container:
        told = sweep_as("user", pod.data_dir)
        assert container.wait(10) == -9
    assert "containers=1" in told
    assert "nft" in told


def test_what_runs_is_killed_though_what_was_about_to_run_could_not_be_stopped(pod: PodDirectory) -> None:
    late = pod.attempt("late", 0)
    late.mkdir(parents=True)
    with container_of(pod) as container:
        late.parent.chmod(0o500)
        told = sweep_as("user", pod.data_dir)
        late.parent.chmod(0o700)
        assert container.wait(10) == -9
    assert "Permission denied" in told


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
