"""A first look at how fast Hekla is, beside its peers, in one run.

    python -m benchmarks.first_look

Measures: from `hekla run` to the first container and to the end; pod creates and binds per second of our API server
and of kube-apiserver + etcd, both over TLS with the same client, 64 requests in flight, durable; and how many pods
per second the scheduler's core places on 5,000 nodes. Figures are medians; read them as ratios on your machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.decisions import measure
from hekla.api.kinds import NODE, POD, Obj
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from tests.cluster.control_plane import find_binaries, start_control_plane
from tests.eventually import eventually

ROOT = Path(__file__).parents[1]
HEKLA = Path(sys.executable).with_name("hekla")
PODS = 3000
IN_FLIGHT = 64
RUNS = 5

TIMED_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: timed}
spec:
  minAvailable: 3
  tasks:
    - name: worker
      replicas: 3
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: any, command: [date, "+started %s.%N"], resources: {requests: {cpu: 100m}}}
"""


@dataclass(frozen=True)
class Row:
    what: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    more_is_better: bool = True

    def cells(self) -> list[str]:
        ours = f"{self.ours:,.2f}" if self.ours < 100 else f"{self.ours:,.0f}"
        if not self.peer:
            return [self.what, f"{ours} {self.unit}", "–", "–"]
        ratio = self.ours / self.peer if self.more_is_better else self.peer / self.ours
        return [self.what, f"{ours} {self.unit}", f"{self.peer:,.0f} {self.unit} ({self.peer_name})", f"{ratio:.1f}×"]


def main() -> None:
    rows = [*time_runs(), *compare_api_servers(), *decision_rates()]
    table = [["", "Hekla", "peer", "ratio"], *[row.cells() for row in rows]]
    widths = [max(len(cells[column]) for cells in table) for column in range(4)]
    for number, cells in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def time_runs() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        job = Path(directory, "job.yaml")
        job.write_text(TIMED_JOB)
        firsts, totals = zip(*(time_one_run(job) for _ in range(RUNS)))
    return [
        Row("`hekla run`, cluster start included: first container", statistics.median(firsts), "s"),
        Row("`hekla run`, cluster start included: done and cleaned up", statistics.median(totals), "s"),
    ]


def time_one_run(job: Path) -> tuple[float, float]:
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    environment["XDG_STATE_HOME"] = str(job.parent)
    start = time.time()
    done = subprocess.run([HEKLA, "run", job], capture_output=True, text=True, timeout=120, env=environment)
    total = time.time() - start
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    started = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if "| started " in line]
    return min(started) - start, total


def compare_api_servers() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory, our_server(Path(directory)) as kubeconfig:
        our_creates, our_binds = asyncio.run(load(kubeconfig))
    binaries = find_binaries() or Path(subprocess.check_output([ROOT / "scripts/build-envtest"], text=True).strip())
    with tempfile.TemporaryDirectory() as directory, start_control_plane(binaries, Path(directory)) as plane:
        creates, binds = asyncio.run(load(plane.kubeconfig))
    peer = "kube-apiserver + etcd"
    return [
        Row(f"pod creates, {IN_FLIGHT} in flight", our_creates, "/s", creates, peer),
        Row(f"pod binds, {IN_FLIGHT} in flight", our_binds, "/s", binds, peer),
    ]


@contextlib.contextmanager
def our_server(directory: Path) -> Iterator[Path]:
    process = subprocess.Popen(
        [HEKLA, "apiserver", "--data-dir", directory, "--log-level", "warning"], stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: (directory / "kubeconfig").exists(), what="the API server is ready")
        yield directory / "kubeconfig"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def load(kubeconfig: Path) -> tuple[float, float]:
    """Creates per second, binds per second."""
    client = client_from_files([kubeconfig], user_agent="hekla-benchmark")
    try:
        await client.create(NODE, node())
        await in_flight(100, lambda index: client.create(POD, pod(f"warm-{index}")))
        creating: list[Obj] = [{}] * PODS

        async def create(index: int) -> None:
            creating[index] = await client.create(POD, pod(f"pod-{index}"))

        creates = await rate(PODS, create)
        return creates, await rate(PODS, lambda index: bind(client, creating[index]))
    finally:
        await client.close()


async def bind(client: Client, obj: Obj) -> None:
    await client.bind("default", obj["metadata"]["name"], "node", uid=obj["metadata"]["uid"])


async def rate(count: int, work: Callable[[int], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await in_flight(count, work)
    return count / (time.perf_counter() - start)


async def in_flight(count: int, work: Callable[[int], Awaitable[object]]) -> None:
    waiting = iter(range(count))

    async def worker() -> None:
        for index in waiting:
            await work(index)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


def node() -> Obj:
    size = {"cpu": "100000", "memory": "1000Ti", "pods": "100000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node"},
        "status": {"capacity": size, "allocatable": size},
    }


def pod(name: str) -> Obj:
    labels = {f"volcano.sh/{key}": "benchmark" for key in ("job-name", "job-namespace", "task-spec", "queue-name")}
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sleep", "30"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": labels},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


def decision_rates() -> list[Row]:
    return [
        Row("decisions, 10,000 identical pods, 5,000 nodes", measure(5000, 10_000, mixed=False), "pods/s"),
        Row("decisions, 2,000 different pods, 5,000 nodes", measure(5000, 2_000, mixed=True), "pods/s"),
    ]


if __name__ == "__main__":
    main()
