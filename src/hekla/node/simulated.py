"""Nodes whose pods pretend to run: for scale, for tests, for trying a scheduler out. No processes, no threads.

A bound pod is Running at once. `hekla.dev/simulated-seconds` says how long (absent: until deleted) and
`hekla.dev/simulated-exit-code` how it ends; restartPolicy OnFailure and Always run it again. Everything is decided
from the pod itself, so a restarted simulation goes on where the last one was.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hekla.api.core import FINISHED_POD_PHASES, HOSTNAME_LABEL
from hekla.api.devices import declared_gpus
from hekla.api.kinds import NODE, POD, Obj
from hekla.api.meta import (
    Key,
    annotations_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    parse_timestamp,
    timestamp,
    uid_of,
)
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.errors import AlreadyExists, ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.node.records import ExitRecord
from hekla.node.registration import RENEW_SECONDS, NodeLease, node_status
from hekla.node.runtime import Attempt, ContainerRuntime, PodRuntime, main_containers, restart_policy
from hekla.node.status import pod_status

log = get_logger("node")

SECONDS = "hekla.dev/simulated-seconds"
EXIT_CODE = "hekla.dev/simulated-exit-code"
_WORKERS = 16
_NETWORK = ipaddress.IPv4Network("10.128.0.0/9")


@dataclass(frozen=True)
class SimulatedNode:
    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    ephemeral_storage: str = "100Gi"
    gpus: int = 0
    gpu_memory: int = 0  # of each, to be shared
    pods: int = 110
    labels: dict[str, str] = field(default_factory=dict)

    def amounts(self) -> dict[str, str]:
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.ephemeral_storage,
            "pods": str(self.pods),
            **declared_gpus(self.gpus, self.gpu_memory),
        }


async def run_simulated(
    client: Client,
    nodes: Sequence[SimulatedNode],
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[], None] | None = None,
    signs_of_life: bool = False,
) -> None:
    """Be these nodes until cancelled. `ready` is called once all are registered.

    A cluster whose node controller gives up on silent nodes needs `signs_of_life`; our own does not, and thousands of
    simulated nodes would be thousands of Leases.
    """
    simulation = _Simulation(client, nodes, clock, rng)
    async with asyncio.TaskGroup() as tasks:
        async with asyncio.TaskGroup() as registering:
            for node in nodes:
                registering.create_task(simulation.register(node))
        if ready is not None:
            ready()
        simulation.watch(tasks)
        for node in nodes if signs_of_life else ():
            tasks.create_task(simulation.stay_alive(node))


@dataclass(frozen=True)
class Verdict:
    """What a pod needs: a status to write, its deletion confirmed, or a look later."""

    status: Obj | None = None
    confirm_deletion: bool = False
    again_after: float | None = None


def judge(pod: Obj, now: datetime) -> Verdict:
    """Pure: where a pretended pod is at `now`."""
    over = (pod.get("status") or {}).get("phase") in FINISHED_POD_PHASES
    started = _started_at(pod)
    if is_deleting(pod):
        return Verdict(confirm_deletion=True) if over or started is None else _stopped(pod, started, now)
    if over:
        return Verdict()
    if started is None:
        return _seen(pod, _runtime(pod, now, None), now, _seconds(pod))
    seconds = _seconds(pod)
    if seconds is None:
        return Verdict()
    ends = started + timedelta(seconds=seconds)
    if now < ends:
        return Verdict(again_after=(ends - now).total_seconds())
    return _after_end(pod, started, ends, now)


def _after_end(pod: Obj, started: datetime, ends: datetime, now: datetime) -> Verdict:
    code = int(annotations_of(pod).get(EXIT_CODE) or 0)
    record = ExitRecord(
        code=code, reason="Error" if code else "Completed", startedAt=timestamp(started), finishedAt=timestamp(ends)
    )
    policy = restart_policy(pod)
    if policy == "Never" or (policy == "OnFailure" and code == 0):
        return _seen(pod, _runtime(pod, started, record), now, None)
    return _seen(pod, _runtime(pod, now, None, previous=record), now, _seconds(pod))


def _stopped(pod: Obj, started: datetime, now: datetime) -> Verdict:
    """Told to stop it stops, and well; its deletion is confirmed at the look that this status brings about."""
    record = ExitRecord(code=0, reason="Completed", startedAt=timestamp(started), finishedAt=timestamp(now))
    return _seen(pod, _runtime(pod, started, record), now, None)


def _seen(pod: Obj, runtime: PodRuntime, now: datetime, again: float | None) -> Verdict:
    return Verdict(status=pod_status(pod, runtime, now), again_after=again)


def _runtime(pod: Obj, started: datetime, exit_: ExitRecord | None, previous: ExitRecord | None = None) -> PodRuntime:
    restarts = _restarts(pod)
    containers = {}
    for container in main_containers(pod):
        if previous is None:
            attempts: tuple[Attempt, ...] = (Attempt(restarts, timestamp(started), None, exit_),)
            before = restarts
        else:
            old = Attempt(restarts, previous["startedAt"], None, previous)
            attempts, before = (old, Attempt(restarts + 1, timestamp(started))), restarts
        containers[container["name"]] = ContainerRuntime(container["name"], attempts, restarts_before=before)
    return PodRuntime(containers, address=_address(pod))


def _address(pod: Obj) -> str:
    """The same for the same pod, and its own as far as a hash can promise."""
    known = (pod.get("status") or {}).get("podIP")
    if known:
        return str(known)
    number = int(uid_of(pod).replace("-", "")[:8] or "0", 16)
    return str(_NETWORK.network_address + 1 + number % (_NETWORK.num_addresses - 2))


def _first_status(pod: Obj) -> Obj:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    found: Obj = statuses[0]
    return found


def _started_at(pod: Obj) -> datetime | None:
    running = (_first_status(pod).get("state") or {}).get("running")
    return parse_timestamp(running["startedAt"]) if running else None


def _restarts(pod: Obj) -> int:
    return int(_first_status(pod).get("restartCount") or 0)


def _seconds(pod: Obj) -> float | None:
    text = annotations_of(pod).get(SECONDS)
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


class _Simulation:
    def __init__(self, client: Client, nodes: Sequence[SimulatedNode], clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._names = frozenset(node.name for node in nodes)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue()
        self._pods = Informer(client, POD, rng=rng)

    def watch(self, tasks: asyncio.TaskGroup) -> None:
        self._pods.subscribe(self._hear)
        tasks.create_task(self._pods.run())
        for _ in range(_WORKERS):
            tasks.create_task(self._work())

    async def register(self, node: SimulatedNode) -> None:
        delay = 0.1
        while True:
            try:
                await self._write_node(node)
                return
            except (ApiError, Disconnected) as error:
                log.debug("simulated node not registered yet", node=node.name, error=error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 10.0)

    async def stay_alive(self, node: SimulatedNode) -> None:
        lease = NodeLease(self._client, node.name, self._clock)
        while True:
            try:
                await lease.renew()
            except (ApiError, Disconnected) as error:
                log.warning("heartbeat failed", node=node.name, error=error)
            await asyncio.sleep(RENEW_SECONDS)

    async def _write_node(self, node: SimulatedNode) -> None:
        labels = {HOSTNAME_LABEL: node.name, "hekla.dev/simulated": "true", **node.labels}
        wanted = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}, "spec": {}}
        try:
            found = await self._client.create(NODE, wanted)
        except AlreadyExists:
            found = await self._client.get(NODE, node.name)
        status = node_status(found, node.amounts(), node.name, None, timestamp(self._clock.now()))
        await self._client.patch(NODE, node.name, {"status": status}, subresource="status")

    def _hear(self, update: Update) -> None:
        if update.new is not None and update.new["spec"].get("nodeName") in self._names:
            self._queue.add(key_of(update.new))

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._reconcile(key)
                self._queue.forget(key)
            except (ApiError, Disconnected) as error:
                log.debug("pod not simulated yet", pod=key, error=error)
                self._queue.retry(key)
            finally:
                self._queue.done(key)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or pod["spec"].get("nodeName") not in self._names:
            return
        verdict = judge(pod, self._clock.now())
        try:
            if verdict.confirm_deletion:
                await self._client.delete(POD, key.name, key.namespace, uid=uid_of(pod), grace_seconds=0)
            elif verdict.status is not None:
                meta = {"uid": uid_of(pod), "resourceVersion": pod["metadata"]["resourceVersion"]}
                patch = {"metadata": meta, "status": verdict.status}
                await self._client.patch(POD, name_of(pod), patch, namespace_of(pod), subresource="status")
        except (NotFound, Conflict):
            # Our copy is old: the newer one is on its way and brings the key back.
            self._queue.add_after(key, 1.0)
            return
        if verdict.again_after is not None:
            self._queue.add_after(key, verdict.again_after)
