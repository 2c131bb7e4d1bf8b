"""Two schedulers on a real kube-apiserver: one leads, and when it is killed or stands still the other takes over."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hekla.client.kubeconfig import client_from_files
from tests.cluster.components import HEKLA
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import wipe
from tests.cluster.test_torn_gang import MEMBERS, bound, set_stage
from tests.eventually import eventually
from tests.ports import free_port

pytestmark = pytest.mark.cluster

LEASE = ("-n", "volcano-system", "get", "lease", "volcano")
# Less than the defaults, and still more than a busy machine keeps a leader from renewing.
TIMES = (
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=500ms",
)


@dataclass(frozen=True)
class Scheduler:
    process: subprocess.Popen[bytes]
    log: Path
    port: int

    @property
    def identity(self) -> str:
        """Under which it leads; empty before that."""
        said = self.log.read_text()
        return said.rpartition("identity=")[2].split()[0] if "leading" in said else ""

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def says_that_it_leads(self) -> bool:
        return 'leader_election_master_status{name="volcano"} 1.0' in self.page("/metrics")


@contextlib.contextmanager
def scheduler(plane: ControlPlane, directory: Path, name: str) -> Iterator[Scheduler]:
    port = free_port()
    metrics = ("--enable-metrics", "--listen-address", f"127.0.0.1:{port}")
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        command = [HEKLA, "scheduler", "--kubeconfig", plane.kubeconfig, *TIMES, *metrics]
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: "scheduler ready" in log.read_text(), seconds=60, what=f"{name} is ready")
        yield Scheduler(process, log, port)
    finally:
        process.kill()
        process.wait()


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    return subprocess.check_output([plane.kubectl, "--kubeconfig", plane.kubeconfig, *arguments], text=True)


def holder(plane: ControlPlane) -> str:
    return kubectl(plane, *LEASE, "-o", "jsonpath={.spec.holderIdentity}")


def in_cluster(plane: ControlPlane, *work: object) -> list[str]:
    """Carry out what is asked for, in order; gives the pods that are bound."""

    async def main() -> list[str]:
        async with client_from_files([plane.kubeconfig]) as client:
            for each in work:
                await each(client)  # type: ignore[operator]
            return await bound(client)

    return asyncio.run(main())


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_when_the_leader_is_gone_or_stands_still_the_other_binds_the_gang(
    bare_plane: ControlPlane, tmp_path: Path, end: signal.Signals
) -> None:
    in_cluster(bare_plane, wipe)
    with scheduler(bare_plane, tmp_path, "first") as first, scheduler(bare_plane, tmp_path, "second") as second:
        assert first.identity == holder(bare_plane)
        assert first.identity in kubectl(bare_plane, *LEASE)
        assert (second.identity, second.page("/healthz")) == ("", "ok")
        assert (first.says_that_it_leads(), second.says_that_it_leads()) == (True, False)

        first.process.send_signal(end)
        in_cluster(bare_plane, set_stage)
        eventually(lambda: in_cluster(bare_plane) == MEMBERS, what="the other binds the gang")
        assert second.identity == holder(bare_plane) != ""
        assert second.says_that_it_leads()

        if end is signal.SIGSTOP:
            first.process.send_signal(signal.SIGCONT)
            assert first.process.wait(60) == 1
            assert "lease volcano-system/volcano lost" in first.log.read_text().splitlines()[-1]
            assert second.identity == holder(bare_plane)

        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(60) == 0
        assert holder(bare_plane) == ""
