"""How fast pods get nodes: the decisions alone, and whole gangs from their creation to their binding.

    python -m benchmarks.scheduler [--decisions-only]

The second table is ten gangs of a hundred pods on a hundred nodes, created with 64 requests in flight while the
scheduler is at work, until the last pod has its node; each line in processes of its own. kube-scheduler knows no
gangs and binds pods one by one; it is there as the mark. Needs the binaries of scripts/build-envtest (HEKLA_ENVTEST)
for the lines with kube-apiserver, and leaves them out otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.decisions import measure
from benchmarks.first_look import HEKLA, in_flight, our_server
from hekla.api.crds import load_crds
from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, POD, POD_GROUP, QUEUE, Obj
from hekla.client.informer import Informer, Update
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.errors import AlreadyExists, ApiError
from tests.cluster.control_plane import find_binaries, start_control_plane

SIZES = (100, 1_000, 5_000, 20_000)
GANGS, PODS, NODES = 10, 100, 100
LONGEST = 60.0
OUR_NAME = "volcano"
OURS = [str(HEKLA), "scheduler", "--log-level", "warning"]


@dataclass(frozen=True)
class Times:
    first_create_to_last_bound: float
    last_create_to_last_bound: float


def main() -> None:
    print_decisions()
    if "--decisions-only" not in sys.argv:
        print()
        print_gangs()


def print_decisions() -> None:
    print("| nodes | identical pods/s | mixed pods/s |\n|---|---|---|")
    for nodes in SIZES:
        identical = measure(nodes, min(nodes * 10, 100_000), mixed=False)
        mixed = measure(nodes, min(nodes, 2_000), mixed=True)
        print(f"| {nodes:,} | {identical:,.0f} | {mixed:,.0f} |", flush=True)


def print_gangs() -> None:
    print(f"| {GANGS} gangs × {PODS} pods, {NODES} nodes | first create to last bound | last create to last bound |")
    print("|---|---|---|")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        kubeconfig = stack.enter_context(our_server(Path(directory)))
        stack.enter_context(running([*OURS, "--kubeconfig", str(kubeconfig)]))
        show("Hekla's scheduler on Hekla's API server", asyncio.run(time_gangs(kubeconfig, OUR_NAME)))
    binaries = find_binaries()
    if binaries is None:
        print("| (no kube-apiserver: HEKLA_ENVTEST is not set) | | |")
        return
    for what, name, command in (
        ("Hekla's scheduler on kube-apiserver", OUR_NAME, OURS),
        ("kube-scheduler on kube-apiserver, no gangs", "default-scheduler", kube_scheduler(binaries)),
    ):
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            plane = stack.enter_context(start_control_plane(binaries, Path(directory)))
            stack.enter_context(running([*command, "--kubeconfig", str(plane.kubeconfig)]))
            show(what, asyncio.run(time_gangs(plane.kubeconfig, name)))


def show(what: str, times: Times) -> None:
    print(
        f"| {what} | {times.first_create_to_last_bound:.2f} s | {times.last_create_to_last_bound:.2f} s |", flush=True
    )


def kube_scheduler(binaries: Path) -> list[str]:
    return [
        str(binaries / "kube-scheduler"), "--leader-elect=false", "--secure-port=0",
        "--kube-api-qps=5000", "--kube-api-burst=10000",
    ]  # fmt: skip


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def time_gangs(kubeconfig: Path, scheduler: str) -> Times:
    client = client_from_files([kubeconfig], user_agent="hekla-benchmark")
    try:
        await prepare(client, scheduler)
        count = GANGS * PODS
        async with asyncio.timeout(LONGEST), bound_pods(client, count) as all_bound:
            start = time.perf_counter()
            await in_flight(count, lambda index: client.create(POD, pod(index, scheduler)))
            created = time.perf_counter()
            await all_bound.wait()
            end = time.perf_counter()
        return Times(end - start, max(0.0, end - created))
    finally:
        await client.close()


async def prepare(client: Client, scheduler: str) -> None:
    """The kinds, the nodes and the groups; then one pod, so that the clock starts with a scheduler at work."""
    for definition in load_crds():
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await in_flight(NODES, lambda index: client.create(NODE, node(index)))
    async with asyncio.timeout(LONGEST):
        if scheduler == OUR_NAME:
            await open_queue(client)
            await client.create(POD_GROUP, group("warm", 1))
            for index in range(GANGS):
                await client.create(POD_GROUP, group(f"gang-{index}", PODS))
        async with bound_pods(client, 1) as bound:
            await client.create(POD, pod(0, scheduler, gang="warm"))
            await bound.wait()
    await client.delete(POD, "warm-worker-0", "default", grace_seconds=0)


async def open_queue(client: Client) -> None:
    """What the queue controller does. The queue is there a moment after the scheduler."""
    while True:
        try:
            await client.patch(QUEUE, "default", {"status": {"state": "Open"}}, subresource="status")
        except ApiError:
            await asyncio.sleep(0.1)
        else:
            return


@contextlib.asynccontextmanager
async def bound_pods(client: Client, count: int) -> AsyncIterator[asyncio.Event]:
    """An event that is set once so many pods of this benchmark have nodes."""
    bound: set[str] = set()
    enough = asyncio.Event()

    def note(update: Update) -> None:
        obj = update.new
        if obj is not None and (obj.get("spec") or {}).get("nodeName"):
            bound.add(obj["metadata"]["uid"])
            if len(bound) >= count:
                enough.set()

    informer = Informer(client, POD, rng=random.Random())
    informer.subscribe(note)
    task = asyncio.create_task(informer.run())
    try:
        yield enough
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def node(number: int) -> Obj:
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:03}"},
        "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def group(name: str, minimum: int) -> Obj:
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum},
    }


def pod(number: int, scheduler: str, gang: str = "") -> Obj:
    name = gang or f"gang-{number // PODS}"
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-worker-{number % PODS}",
            "namespace": "default",
            "annotations": {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "worker"},
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "any", "resources": resources}],
            # Nodes that no kubelet speaks for are tainted before long.
            "tolerations": [{"operator": "Exists"}],
        },
    }


if __name__ == "__main__":
    main()
