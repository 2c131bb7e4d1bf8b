"""How fast pods get nodes: the decisions alone, whole workloads from creation to binding, and how long a start takes.

    python -m benchmarks.scheduler [NAME …] [--scale 0.1] [--on Hekla kube-scheduler …]
    python -m benchmarks.scheduler --list

Every line is a fresh server and a fresh scheduler in processes of their own. Seconds are from the first create to the
last pod seen with a node; CPU seconds are those of the same time. Where a server takes many objects in one request,
pods are created that way, a hundred at a time, as our controllers do it; elsewhere with 64 requests in flight. The
lines with kube-apiserver need the binaries of scripts/build-envtest, which it builds on the first run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import uvloop

from benchmarks.decisions import measure
from benchmarks.driver import Driver
from benchmarks.engines import ENGINES, Engine, started
from benchmarks.processes import cpu_seconds, megabytes, peak_megabytes, unused_seconds
from benchmarks.workloads import NAMESPACE, Workload, for_kube_scheduler, group, pod, queue, settled_cluster, workloads
from hekla.api.crds import load_crds
from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, POD, QUEUE, VOLCANO_KINDS, Kind, Obj
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.errors import AlreadyExists, ApiError

DECISION_SIZES = (100, 1_000, 5_000, 20_000)
LONGEST = 900.0
IDLE_ROUNDS = 10
CORES = os.cpu_count() or 1
OTHERS = ("decisions", "idle", "restart")
DEFAULT = ("decisions", "idle", "gangs")


@dataclass(frozen=True)
class Result:
    engine: str
    pods: int
    seconds: float
    cpu: Mapping[str, float]
    unused: float  # CPU seconds of all cores
    peak_mib: float

    def cells(self, mark: Result | None) -> list[str]:
        scheduler = self.cpu["scheduler"]
        servers = " / ".join(f"{self.cpu[name]:.1f}" for name in ("API server", "etcd") if name in self.cpu)
        return [
            self.engine,
            f"{self.seconds:.2f} s",
            f"{self.pods / self.seconds:,.0f}",
            f"{mark.seconds / self.seconds:.1f}×" if mark is not None else "",
            f"{scheduler:.2f} s, {scheduler / self.pods * 1000:.2f} ms",
            f"{servers} s",
            f"{self.cpu['controllers']:.1f} s" if "controllers" in self.cpu else "",
            f"{self.cpu['driver']:.1f} s",
            f"{1 - self.unused / self.seconds / CORES:.0%}",
            f"{self.peak_mib:.0f}",
        ]


TITLES = ["", "first create to last bound", "pods/s", "kube-scheduler's time", "scheduler CPU, per pod"]
TITLES += ["API server / etcd CPU", "controllers CPU", "driver CPU", "cores busy", "scheduler peak MiB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {', '.join(DEFAULT)}; `all` for all")
    parser.add_argument("--scale", type=float, default=1.0, help="all sizes times this")
    parser.add_argument("--on", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    known = workloads(options.scale)
    names = [*OTHERS, *known] if options.names == ["all"] else options.names or DEFAULT
    unknown = sorted({*names} - {*OTHERS, *known})
    if options.list or unknown:
        raise SystemExit(f"{'unknown: ' + ', '.join(unknown) + '; ' if unknown else ''}{' '.join([*OTHERS, *known])}")
    for name in names:
        if name == "decisions":
            print_decisions(options.scale)
        elif name == "idle":
            print_idle(options.on)
        elif name == "restart":
            print_restart(options.on, options.scale)
        else:
            print_workload(known[name](), options.on)
        print(flush=True)


def print_decisions(scale: float) -> None:
    print_row(["nodes", "identical pods/s", "mixed pods/s"], head=True)
    for nodes in DECISION_SIZES:
        nodes = max(1, round(nodes * scale))
        identical = measure(nodes, min(nodes * 10, 100_000), mixed=False)
        mixed = measure(nodes, min(nodes, 2_000), mixed=True)
        print_row([f"{nodes:,}", f"{identical:,.0f}", f"{mixed:,.0f}"])


def print_workload(workload: Workload, engines: Iterable[str]) -> None:
    print_row([f"{workload.what}: {workload.count:,} pods, {len(workload.nodes):,} nodes", *TITLES[1:]], head=True)
    # The mark comes first, so that every line can be compared with it as it is printed.
    mark: Result | None = None
    for name in sorted(engines, key=ENGINES.index, reverse=True):
        result = uvloop.run(run_workload(name, workload))
        mark = result if name == ENGINES[-1] else mark
        print_row(result.cells(mark))


def print_idle(engines: Iterable[str]) -> None:
    print_row(["ten pods on an idle cluster of 100 nodes", "median", "worst"], head=True)
    for name in engines:
        times = sorted(uvloop.run(time_idle(name)))
        print_row([name, f"{times[len(times) // 2] * 1000:.0f} ms", f"{times[-1] * 1000:.0f} ms"])


def print_restart(engines: Iterable[str], scale: float) -> None:
    pods, nodes = round(100_000 * scale), round(5_000 * scale)
    title = f"start with {pods:,} pods on {nodes:,} nodes"
    print_row([title, "to the first bind", "scheduler CPU", "scheduler MiB", "of it for each pod"], head=True)
    for name in engines:
        seconds, cpu, empty, full = uvloop.run(time_restart(name, pods, nodes))
        each = (full - empty) * 1024 / pods
        print_row([name, f"{seconds:.1f} s", f"{cpu:.1f} s", f"{full:.0f}", f"{each:.2f} KiB"])


def print_row(cells: list[str], *, head: bool = False) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)
    if head:
        print("|" + "---|" * len(cells), flush=True)


async def run_workload(name: str, workload: Workload) -> Result:
    with started(name) as engine, contextlib.ExitStack() as stack:
        driver = await Driver.of(engine.kubeconfig)
        by_jobs = bool(workload.jobs) and engine.knows_groups
        await prepare(engine, driver, [*workload.nodes, *(() if by_jobs else workload.setting)])
        scheduler = stack.enter_context(engine.scheduler(workload.conf))
        if by_jobs:
            stack.enter_context(engine.controllers())
        await driver.create(wanted_by(engine, workload.waiting))
        await warm_up(engine, driver)
        settled = {obj["metadata"]["name"] for obj in workload.setting}
        requests = await driver.encode(workload.jobs if by_jobs else wanted_by(engine, workload.pods))
        async with asyncio.timeout(LONGEST), driver.bound(workload.count, besides=settled) as all_bound:
            before, unused, start = used_by(engine), unused_seconds(), time.perf_counter()
            await driver.send(requests)
            await all_bound.wait()
            seconds, unused, after = time.perf_counter() - start, unused_seconds() - unused, used_by(engine)
        return Result(
            name,
            workload.count,
            seconds,
            {what: after[what] - before[what] for what in after},
            unused,
            peak_megabytes(scheduler),
        )


async def time_idle(name: str) -> list[float]:
    """Seconds from the first create to the last bind of ten pods, again and again."""
    with started(name) as engine, contextlib.ExitStack() as stack:
        driver = await Driver.of(engine.kubeconfig)
        quiet = settled_cluster("", 0, 100)
        await prepare(engine, driver, [*quiet.nodes, *quiet.setting])
        stack.enter_context(engine.scheduler())
        await warm_up(engine, driver)
        times = []
        for round_ in range(IDLE_ROUNDS):
            pods = wanted_by(
                engine,
                [
                    {**each, "metadata": {**each["metadata"], "name": f"idle-{round_}-{at}"}}
                    for at, each in enumerate(quiet.pods)
                ],
            )
            requests = await driver.encode(pods)
            async with asyncio.timeout(LONGEST), driver.bound(len(pods)) as bound:
                start = time.perf_counter()
                await driver.send(requests)
                await bound.wait()
                times.append(time.perf_counter() - start)
        return times


async def time_restart(name: str, pods: int, nodes: int) -> tuple[float, float, float, float]:
    """Seconds from the scheduler's start to its first bind, its CPU seconds, and its MiB without and with the pods."""
    with started(name) as engine:
        driver = await Driver.of(engine.kubeconfig)
        full = settled_cluster("", pods, nodes)
        await prepare(engine, driver, [*full.nodes, *(obj for obj in full.setting if obj["kind"] != "Pod")])
        with engine.scheduler() as pid:
            await warm_up(engine, driver)
            empty = megabytes(pid)
        await driver.create(wanted_by(engine, (obj for obj in full.setting if obj["kind"] == "Pod")))
        await driver.create(wanted_by(engine, full.pods))
        async with asyncio.timeout(LONGEST), driver.bound(1) as bound:
            start = time.perf_counter()
            with engine.scheduler() as pid:
                await bound.wait()
                seconds = time.perf_counter() - start
                return seconds, cpu_seconds(pid), empty, megabytes(pid)


async def prepare(engine: Engine, driver: Driver, setting: Iterable[Obj]) -> None:
    """The kinds, the queues, the nodes, and what else is there before the clock starts."""
    by_kind: dict[str, list[Obj]] = {}
    for obj in wanted_by(engine, [queue("root", ""), queue("default", "root"), *setting]):
        by_kind.setdefault(obj["kind"], []).append(obj)
    if engine.knows_groups:
        async with client_from_files([engine.kubeconfig]) as client:
            await _make_kinds(client)
            for made in by_kind.pop(QUEUE.kind):
                await _open_queue(client, made)
    for objs in by_kind.values():
        await driver.create(objs)


async def _make_kinds(client: Client) -> None:
    for definition in load_crds():
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    for kind in VOLCANO_KINDS:
        await _until_served(client, kind)


async def _open_queue(client: Client, made: Obj) -> None:
    """What the queue controller would do."""
    with contextlib.suppress(AlreadyExists):
        await client.create(QUEUE, made)
    await client.patch(QUEUE, made["metadata"]["name"], {"status": {"state": "Open"}}, subresource="status")


async def _until_served(client: Client, kind: Kind) -> None:
    while True:
        try:
            await client.list(kind, limit=1)
        except ApiError:
            await asyncio.sleep(0.05)
        else:
            return


async def warm_up(engine: Engine, driver: Driver) -> None:
    """Have one pod bound, so that the clock starts with a scheduler at work."""
    async with asyncio.timeout(LONGEST), driver.bound(1) as bound:
        small = {"cpu": "1m", "memory": "1Mi"}
        await driver.create(wanted_by(engine, [group("warm", 1), pod("warm-main-0", small, "warm")]))
        await bound.wait()
    async with client_from_files([engine.kubeconfig]) as client:
        await client.delete(POD, "warm-main-0", NAMESPACE, grace_seconds=0)


def used_by(engine: Engine) -> dict[str, float]:
    """CPU seconds so far, by what the processes are."""
    return {what: cpu_seconds(pid) for what, pid in {**engine.pids, "driver": os.getpid()}.items()}


def wanted_by(engine: Engine, objs: Iterable[Obj]) -> list[Obj]:
    """What of the objects an engine understands, in its words."""
    if engine.knows_groups:
        return list(objs)
    known = [obj for obj in objs if "volcano.sh" not in obj["apiVersion"]]
    return [for_kube_scheduler([obj])[0] if obj["kind"] == "Pod" else obj for obj in known]


if __name__ == "__main__":
    main()
