"""Upstream's recorded decisions, played to `hekla scheduler` on a real kube-apiserver, where they were recorded.

A selection in every run, one or two of each topic; `scripts/test-cluster -m every_recording` plays the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hekla.client.kubeconfig import client_from_files
from tests.cluster.components import HEKLA
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import wipe
from tests.eventually import eventually
from tests.scheduler.recorded import all_names, explained, load, unexplained
from tests.scheduler.replay import Replay

QUIET_SECONDS = 3.0  # as when they were recorded: less is too little on a busy machine
ALWAYS = (
    "backfill-mixed-gang",
    "capacity-reclaim",
    "enqueue-one-of-two",
    "later-members-complete",
    "message-gang-cpu-and-taint",
    "preempt-unmarked-pods",
    "reclaim-gang-of-two",
    "sla-own-time",
)
OTHERS = [name for name in all_names() if name not in ALWAYS and name not in explained()["waiting"]]


@pytest.mark.cluster
@pytest.mark.parametrize("name", ALWAYS)
def test_the_outcome_is_upstreams(name: str, bare_plane: ControlPlane, tmp_path: Path) -> None:
    asyncio.run(play(name, bare_plane, tmp_path))


@pytest.mark.every_recording
@pytest.mark.parametrize("name", OTHERS)
def test_the_outcome_is_upstreams_everywhere(name: str, bare_plane: ControlPlane, tmp_path: Path) -> None:
    asyncio.run(play(name, bare_plane, tmp_path))


async def play(name: str, plane: ControlPlane, directory: Path) -> None:
    recording = load(name)
    async with client_from_files([plane.kubeconfig]) as client:
        await wipe(client)
        replay = Replay(recording, client, quiet=QUIET_SECONDS, gives_time=True)
        await replay.run(Scheduler(plane, directory).running, directory)
    assert unexplained(recording, replay.stages, replay.events) == {}


class Scheduler:
    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane = plane
        self._log = directory / "scheduler.log"

    @contextlib.asynccontextmanager
    async def running(self, conf: Path) -> AsyncIterator[None]:
        command = [HEKLA, "scheduler", "--kubeconfig", self._plane.kubeconfig, "--scheduler-conf", conf]
        with self._log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            await asyncio.to_thread(eventually, lambda: "scheduler ready" in self._log.read_text(), what="it is ready")
            yield
            assert process.poll() is None, self._log.read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
