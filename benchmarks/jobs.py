"""What the controllers cost: Jobs until all their pods exist, a small Job behind a huge one, binds, a restart.

    python -m benchmarks.jobs [--pods 10000] [--server ours --server kubernetes] [--shape big --shape tens --shape ones]

Every shape gets a fresh API server: Hekla's, then kube-apiserver with etcd (of HEKLA_ENVTEST; left out without). The
controllers run as in production, in a process of their own. Of the scheduler there is only what Jobs wait for: this
program lets every PodGroup in as soon as it sees it, as many side by side as the scheduler does. CPU is taken until
the controllers have nothing left to do. Writes are those of the controllers, Events included, pods not; an item of a
batch counts as a write.

With `--floor`, shape `ones` is measured on kube-apiserver once more with a program in the controllers' place that asks
and hears the same, and decides nothing (`benchmarks.floor_process`): what is above its figure is the controllers' own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.first_look import HEKLA, in_flight
from benchmarks.processes import children_named, cpu_seconds, peak_megabytes, until_idle
from hekla.api.batches import Binding
from hekla.api.kinds import JOB, NODE, POD, POD_GROUP, Obj
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.watch import Relisted, follow
from hekla.local.bootstrap import install_crds
from hekla.local.layout import Layout
from hekla.scheduler.scheduler import SchedulerSettings
from tests.cluster.control_plane import find_binaries, start_control_plane
from tests.eventually import eventually

OURS, KUBERNETES = "Hekla's API server", "kube-apiserver + etcd"
SERVERS = {"ours": OURS, "kubernetes": KUBERNETES}
SHAPES = ("big", "tens", "ones")
FLOOR_SHAPE = "floor"
CONTROLLERS, FLOOR = "benchmarks.controllers_process", "benchmarks.floor_process"
LONGEST = 600.0
SMALL = 10
FLAT_JOBS, FLAT_PODS = 5, 100
BINDINGS_AT_ONCE = 500
# Measured for upstream on two cores and a real API server, to the last bind (wall) and all told (CPU): not part of this
# run. 1 job x 10,000 and 10,000 jobs x 1, no webhooks.
UPSTREAM_CPU_MS = {(1, 10_000): 8.8, (10_000, 1): 17.0}


@dataclass
class Line:
    """One measured workload. Seconds, megabytes; `writes` are those per Job besides pods."""

    what: str
    pods: int
    wall: float
    controllers_cpu: float
    server_cpu: float
    memory: float
    writes: float | None = None
    conflicts: int | None = None
    upstream_cpu_ms: float | None = None

    def cells(self) -> list[str]:
        each = self.controllers_cpu / self.pods * 1000
        ratio = f"{self.upstream_cpu_ms} ms, {self.upstream_cpu_ms / each:.0f}×" if self.upstream_cpu_ms else ""
        return [
            self.what,
            f"{self.wall:.2f} s",
            f"{self.pods / self.wall:,.0f}/s",
            f"{each:.2f} ms",
            f"{self.server_cpu / self.pods * 1000:.2f} ms",
            "" if self.writes is None else f"{self.writes:.1f}",
            "" if self.conflicts is None else str(self.conflicts),
            f"{self.memory:.0f} MiB",
            ratio,
        ]


HEAD = [
    "", "wall", "pods", "controllers CPU per pod", "server CPU per pod", "other writes per job", "409s",
    "controllers' peak", "upstream's CPU per pod as recorded, ratio",
]  # fmt: skip


@dataclass
class Cluster:
    kubeconfig: Path
    server_pids: tuple[int, ...]


@dataclass
class Scene:
    """What has been seen of the pods, and what waits for it."""

    pods: dict[str, Obj] = field(default_factory=dict)
    bound: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, obj: Obj) -> None:
        key = name_of(obj)
        known = self.pods.get(key)
        self.pods[key] = obj
        if obj["spec"].get("nodeName") and not (known and known["spec"].get("nodeName")):
            self.bound += 1
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> float:
        while not holds():
            self.changed.clear()
            await self.changed.wait()
        return time.perf_counter()


class Controllers:
    """The controllers' process: `counts` are its writes so far."""

    def __init__(self, kubeconfig: Path, profile: str = "", *, program: str = CONTROLLERS) -> None:
        command = [sys.executable, "-m", program, str(kubeconfig)]
        command += ["--profile", profile] if profile else []
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise SystemExit("the controllers did not start")

    def counts(self) -> Counter[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Counter(json.loads(self._process.stdout.readline()))

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000, help="pods in all (a multiple of ten)")
    parser.add_argument("--server", action="append", choices=sorted(SERVERS), help="default: both")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="default: all")
    parser.add_argument("--profile", default="", help="a folder for profiles of the controllers (which slows them)")
    parser.add_argument(
        "--floor", action="store_true", help="also what the requests and watches of shape ones cost alone"
    )
    options = parser.parse_args()
    for server in options.server or SERVERS:
        if server == "kubernetes" and find_binaries() is None:
            print("(no kube-apiserver: HEKLA_ENVTEST is not set)")
            continue
        print(f"\n| {SERVERS[server]}" + " | ".join(HEAD) + " |")
        print("|" + "---|" * len(HEAD))
        floor = [FLOOR_SHAPE] if options.floor and server == "kubernetes" else []
        for shape in [*(options.shape or SHAPES), *floor]:
            with start(server) as cluster:
                for line in asyncio.run(measure(cluster, shape, options.pods, options.profile)):
                    print("| " + " | ".join(line.cells()) + " |", flush=True)


async def measure(cluster: Cluster, shape: str, pods: int, profile: str) -> list[Line]:
    client = client_from_files([cluster.kubeconfig], user_agent="hekla-benchmark")
    async with asyncio.timeout(LONGEST), client:
        await install_crds(client)
        program = FLOOR if shape == FLOOR_SHAPE else CONTROLLERS
        controllers = Controllers(cluster.kubeconfig, profile and f"{profile}/{shape}.profile", program=program)
        try:
            controllers.wait_until_ready()
            async with watched(client) as scene:
                bench = Bench(cluster, client, controllers, scene)
                match shape:
                    case "tens":
                        return [await bench.create("tens", pods // 10, 10)]
                    case "ones":
                        return [await bench.create("ones", pods, 1)]
                    case "floor":
                        return [await bench.floor(pods)]
                lines = [await bench.one_after_another(), *await bench.big(pods), await bench.bind(pods)]
            controllers.stop()
            controllers = Controllers(cluster.kubeconfig)
            return [*lines, await restart(cluster, controllers, pods)]
        finally:
            controllers.stop()


class Bench:
    def __init__(self, cluster: Cluster, client: Client, controllers: Controllers, scene: Scene) -> None:
        self._cluster = cluster
        self._client = client
        self._controllers = controllers
        self._scene = scene

    async def create(self, name: str, jobs: int, each: int) -> Line:
        """From the first Job's creation to the last pod's."""
        async with self._costs(f"{jobs:,} × {each:,} pods", jobs, each) as line:
            started = time.perf_counter()
            await in_flight(jobs, lambda index: self._client.create(JOB, job(f"{name}-{index}", each)))
            line.wall = await self._all_there(f"{name}-", jobs * each) - started
        line.upstream_cpu_ms = UPSTREAM_CPU_MS.get((jobs, each))
        return line

    async def floor(self, jobs: int) -> Line:
        line = await self.create("floor", jobs, 1)
        line.what, line.writes, line.conflicts, line.upstream_cpu_ms = f"{line.what}, no controllers", None, None, None
        return line

    async def one_after_another(self) -> Line:
        """The cost of a pod in a job of a hundred, to be held against that in the big one."""
        async with self._costs(f"{FLAT_JOBS} × {FLAT_PODS} pods, in turn", FLAT_JOBS, FLAT_PODS) as line:
            started = time.perf_counter()
            for index in range(FLAT_JOBS):
                await self._client.create(JOB, job(f"flat-{index}", FLAT_PODS))
                line.wall = await self._all_there(f"flat-{index}-", FLAT_PODS) - started
        return line

    async def big(self, pods: int) -> list[Line]:
        """One job of all pods, and a small one as soon as the big one has its first."""
        async with self._costs(f"1 × {pods:,} pods", 2, (pods + SMALL) // 2) as line:
            started = time.perf_counter()
            await self._client.create(JOB, job("big", pods))
            small = asyncio.create_task(self._small())
            line.wall = await self._all_there("big-", pods) - started
        line.upstream_cpu_ms = UPSTREAM_CPU_MS.get((1, pods))
        behind = Line(f"a job of {SMALL} behind it", SMALL, await small, 0, 0, line.memory)
        return [line, behind]

    async def bind(self, pods: int) -> Line:
        """Every pod of the big job gets a node: the controllers see each, and have nothing to do."""
        await self._client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})
        found = [pod for name, pod in self._scene.pods.items() if name.startswith("big-")]
        bindings = [Binding(namespace_of(pod), name_of(pod), "node", uid_of(pod)) for pod in found]
        async with self._costs(f"{pods:,} binds", 1, pods) as line:
            started = time.perf_counter()
            for first in range(0, pods, BINDINGS_AT_ONCE):
                await self._client.bind_many(bindings[first : first + BINDINGS_AT_ONCE], all_or_nothing=False)
            line.wall = await self._scene.until(lambda: self._scene.bound >= pods) - started
        return line

    async def _small(self) -> float:
        await self._all_there("big-", 1)
        started = time.perf_counter()
        await self._client.create(JOB, job("small", SMALL))
        return await self._all_there("small-", SMALL) - started

    async def _all_there(self, prefix: str, count: int) -> float:
        pods = self._scene.pods
        return await self._scene.until(
            lambda: len(pods) >= count and sum(name.startswith(prefix) for name in pods) >= count
        )

    @contextlib.asynccontextmanager
    async def _costs(self, what: str, jobs: int, each: int) -> AsyncIterator[Line]:
        pid = self._controllers.pid
        await until_idle(pid)
        line = Line(what, jobs * each, 0, cpu_seconds(pid), cpu_seconds(*self._cluster.server_pids), 0)
        before = self._controllers.counts()
        yield line
        await until_idle(pid)
        line.controllers_cpu = cpu_seconds(pid) - line.controllers_cpu
        line.server_cpu = cpu_seconds(*self._cluster.server_pids) - line.server_cpu
        line.memory = peak_megabytes(pid)
        counts = self._controllers.counts() - before
        line.writes = sum(counts[kind] for kind in counts if kind not in ("pods", "requests", "streams", "409")) / jobs
        line.conflicts = counts["409"]


async def restart(cluster: Cluster, controllers: Controllers, pods: int) -> Line:
    """From the process's start until it has looked at everything."""
    started, before = asyncio.get_running_loop().time(), cpu_seconds(*cluster.server_pids)
    controllers.wait_until_ready()
    wall = await until_idle(controllers.pid) - started
    counts = controllers.counts()
    writes = float(sum(counts.values()) - counts["requests"] - counts["streams"] - counts["409"])
    return Line(
        f"restart with {pods:,} pods, to idle", pods, wall, cpu_seconds(controllers.pid),
        cpu_seconds(*cluster.server_pids) - before, peak_megabytes(controllers.pid), writes, counts["409"],
    )  # fmt: skip


@contextlib.asynccontextmanager
async def watched(client: Client) -> AsyncIterator[Scene]:
    """Pods are noted, PodGroups let in."""
    scene = Scene()
    waiting: asyncio.Queue[Obj] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_note_pods(client, scene)), group.create_task(_note_groups(client, waiting))]
        tasks += [group.create_task(_let_in(client, waiting)) for _ in range(SchedulerSettings.in_flight)]
        yield scene
        for task in tasks:
            task.cancel()


async def _note_pods(client: Client, scene: Scene) -> None:
    async for news in follow(client, POD, rng=random.Random()):
        for obj in news.items if isinstance(news, Relisted) else [change.obj for change in news]:
            scene.note(obj)


async def _note_groups(client: Client, waiting: asyncio.Queue[Obj]) -> None:
    async for news in follow(client, POD_GROUP, rng=random.Random()):
        for obj in news.items if isinstance(news, Relisted) else [change.obj for change in news]:
            if not (obj.get("status") or {}).get("phase"):
                waiting.put_nowait(obj)


async def _let_in(client: Client, waiting: asyncio.Queue[Obj]) -> None:
    while True:
        group = await waiting.get()
        await client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Inqueue"}}, namespace_of(group))


def job(name: str, pods: int) -> Obj:
    """Complete, as admission would make it: the real API server here has no webhook."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "30"], "resources": resources}
    task = {
        "name": "worker",
        "replicas": pods,
        "minAvailable": pods,
        "maxRetry": 3,
        "template": {"spec": {"restartPolicy": "OnFailure", "containers": [container]}},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano", "queue": "default", "minAvailable": pods, "maxRetry": 3, "tasks": [task],
        },
    }  # fmt: skip


@contextlib.contextmanager
def start(server: str) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as directory:
        if server == "kubernetes":
            binaries = find_binaries()
            assert binaries is not None
            with start_control_plane(binaries, Path(directory)) as plane:
                pids = (*children_named("kube-apiserver"), *children_named("etcd"))
                yield Cluster(plane.kubeconfig, pids)
            return
        with _our_server(Path(directory)) as cluster:
            yield cluster


@contextlib.contextmanager
def _our_server(directory: Path) -> Iterator[Cluster]:
    command = [str(HEKLA), "apiserver", "--data-dir", str(directory), "--log-level", "warning"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    layout = Layout(directory)
    try:
        eventually(lambda: layout.kubeconfig.exists(), what="the API server is ready")
        yield Cluster(layout.component_kubeconfig, (process.pid,))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


if __name__ == "__main__":
    main()
