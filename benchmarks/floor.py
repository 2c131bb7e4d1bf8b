"""What the API server alone needs for the writes of a workload: no controllers, no scheduler, nobody who decides.

    python -m benchmarks.floor [W1 W3 W4 …] [--scale 0.1] [--on Hekla "Hekla on kube-apiserver"]

Sends what running Jobs must write at the least, one kind of write after the other: the Job, its PodGroup, the PodGroup
let in, the pods, their bindings, the PodGroup running, the Job running. Requests are encoded before the clock starts
and 64 are in flight; two watches of each kind hear of everything. Whatever the workload takes with controllers and a
scheduler, it cannot take less than this with the same requests. Statuses are merge patches, which need no answer read.

A server that takes many writes in one request gets them as our components send them: a gang's pods in one, Jobs and
bindings a hundred at a time, and what has nothing to do with each other joined by sixteen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import uvloop

from benchmarks.driver import BATCH, Driver, path_of, portions
from benchmarks.engines import EMBEDDED, REAL, Engine, started
from benchmarks.processes import cpu_seconds
from benchmarks.scheduler import prepare, print_row, used_by
from benchmarks.workloads import NAMESPACE, Workload, workloads
from hekla.api.batches import BINDING_BATCH, OBJECT_BATCH, REQUEST_BATCH, Binding
from hekla.api.kinds import JOB, POD, POD_GROUP, Kind, Obj
from hekla.client.rest import PatchStyle
from hekla.client.transport import Request
from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.podgroup import build_pod_group
from hekla.controllers.job.pods import build_pod

JOINED = 16
WATCHES = 2
DEFAULT = ("W1", "W3", "W4")
_RUNNING_JOB = {"state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}, "minAvailable": 1}


@dataclass(frozen=True)
class Step:
    """Writes of one kind, and what their watchers see them as changes of."""

    what: str
    kind: Kind
    requests: list[Request]
    at_once: int = 1  # so many belong together


@dataclass(frozen=True)
class Cost:
    what: str
    writes: int
    seconds: float
    cpu: Mapping[str, float]
    driver_cpu: float

    def cells(self) -> list[str]:
        servers = [self.cpu[name] for name in ("API server", "etcd") if name in self.cpu]
        return [
            self.what,
            f"{self.writes:,}",
            f"{self.seconds:.2f} s",
            " / ".join(f"{used:.2f}" for used in servers) + " s",
            " / ".join(f"{used / self.writes * 1000:.3f}" for used in servers) + " ms",
            f"{self.driver_cpu:.2f} s",
        ]


TITLES = ["writes", "seconds", "API server / etcd CPU", "for each write", "driver CPU"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {', '.join(DEFAULT)}")
    parser.add_argument("--scale", type=float, default=1.0, help="all sizes times this")
    parser.add_argument("--on", nargs="+", default=[EMBEDDED, REAL], choices=[EMBEDDED, REAL])
    options = parser.parse_args()
    known = {name: make for name, make in workloads(options.scale).items() if name.startswith(("W1", "W2", "W3", "W4"))}
    for name in options.names or DEFAULT:
        for engine in options.on:
            workload = known[name]()
            print_row([f"{workload.what} on {engine}: {workload.count:,} pods", *TITLES], head=True)
            costs = uvloop.run(measure(engine, workload))
            for cost in [*costs, total(costs)]:
                print_row(cost.cells())
            print(flush=True)


async def measure(name: str, workload: Workload) -> list[Cost]:
    with started(name) as engine:
        driver = await Driver.of(engine.kubeconfig)
        await prepare(engine, driver, workload.nodes)
        steps = list(steps_of(workload))
        costs: list[Cost] = []
        for step in steps:
            sent = together(step) if await driver.offers_batches() else step.requests
            costs.append(await time_step(engine, driver, step, sent))
        return costs


async def time_step(engine: Engine, driver: Driver, step: Step, sent: list[Request]) -> Cost:
    async with contextlib.AsyncExitStack() as stack:
        # Other kinds have watchers, too, but see nothing of this step.
        watches = [await stack.enter_async_context(driver.counted(step.kind)) for _ in range(WATCHES)]
        before, own, start = used_by(engine), cpu_seconds(os.getpid()), time.perf_counter()
        await driver.send(sent)
        await asyncio.gather(*(watch.reached(len(step.requests)) for watch in watches))
        seconds, after = time.perf_counter() - start, used_by(engine)
    used = {what: after[what] - before[what] for what in after}
    return Cost(step.what, len(step.requests), seconds, used, cpu_seconds(os.getpid()) - own)


def total(costs: list[Cost]) -> Cost:
    return Cost(
        "all",
        sum(cost.writes for cost in costs),
        sum(cost.seconds for cost in costs),
        {what: sum(cost.cpu[what] for cost in costs) for what in costs[0].cpu},
        sum(cost.driver_cpu for cost in costs),
    )


def steps_of(workload: Workload) -> Iterator[Step]:
    nodes = [node["metadata"]["name"] for node in workload.nodes]
    jobs = [_read(obj) for obj in workload.jobs]
    groups = [build_pod_group(job, {}) for job in jobs]
    pods = [pod for job in jobs for pod in _pods(job)]
    size = len(pods) // len(jobs)
    yield Step("Job created", JOB, [_creation(obj) for obj in workload.jobs], BATCH)
    yield Step("PodGroup created", POD_GROUP, [_creation(group) for group in groups])
    # As our scheduler does: nobody applies a Job's PodGroup, and without a record of who wrote what it is cheaper.
    unrecorded = {"managedFields": [{}]}
    let_in = [_status(POD_GROUP, each, {"phase": "Inqueue"}, unrecorded) for each in groups]
    yield Step("PodGroup let in", POD_GROUP, let_in)
    yield Step("pod created", POD, [_creation(pod) for pod in pods], size)
    yield Step("pod bound", POD, [_binding(pod, nodes[at % len(nodes)]) for at, pod in enumerate(pods)], BATCH)
    yield Step("PodGroup running", POD_GROUP, [_status(POD_GROUP, each, {"phase": "Running"}) for each in groups])
    yield Step("Job running", JOB, [_status(JOB, obj, _RUNNING_JOB) for obj in workload.jobs])


def together(step: Step) -> list[Request]:
    """The same writes in fewer requests, as our components send them to our own server."""
    bodies = [msgspec.Raw(request.body) for request in step.requests]
    if step.requests[0].path.endswith("/binding"):
        return [_many(BINDING_BATCH, {"items": each, "allOrNothing": True}) for each in portions(bodies, step.at_once)]
    if step.at_once > 1:
        return [_many(OBJECT_BATCH, {"items": each}) for each in portions(bodies, step.at_once)]
    return [_many(REQUEST_BATCH, {"items": list(map(_item, each))}) for each in portions(step.requests, JOINED)]


def _many(kind: Kind, body: Obj) -> Request:
    return Request("POST", kind.path(), msgspec.json.encode(body))


def _item(request: Request) -> Obj:
    type_ = request.headers.get("Content-Type", "application/json")
    return {"method": request.method, "path": request.path, "type": type_, "body": msgspec.Raw(request.body)}


def _read(obj: Obj) -> Job:
    return read_job({**obj, "metadata": {**obj["metadata"], "uid": f"uid-of-{obj['metadata']['name']}"}})


def _pods(job: Job) -> Iterable[Obj]:
    rng = random.Random(0)
    return (build_pod(job, task, index, claims={}, rng=rng) for task in job.tasks for index in range(task.replicas))


def _creation(obj: Obj) -> Request:
    return Request("POST", path_of(obj), msgspec.json.encode(obj))


def _binding(pod: Obj, node: str) -> Request:
    name = pod["metadata"]["name"]
    return Request(
        "POST",
        POD.path(NAMESPACE, name, "binding"),
        msgspec.json.encode(Binding(NAMESPACE, name, node, "").to_object()),
    )


def _status(kind: Kind, obj: Obj, status: Obj, metadata: Obj | None = None) -> Request:
    path = kind.path(NAMESPACE, obj["metadata"]["name"], "status" if "status" in kind.subresources else "")
    patch = {"status": status, **({"metadata": metadata} if metadata else {})}
    return Request("PATCH", path, msgspec.json.encode(patch), {"Content-Type": PatchStyle.MERGE.value})


if __name__ == "__main__":
    main()
