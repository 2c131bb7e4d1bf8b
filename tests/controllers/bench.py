"""The controllers on an API server in memory, with a scheduler and a kubelet that only do what is asked of them.

Time is virtual. PodGroups are let in at once and their pods are bound and run; a test decides how pods end. The
controllers can be cut off at any of their writes, before or after it takes effect, and are then started anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from hekla.api.kinds import COMMAND, JOB, POD, POD_GROUP, Kind, Obj
from hekla.api.meta import is_deleting, name_of, namespace_of, uid_of
from hekla.client.informer import Informer, Update
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Answer
from hekla.controllers import controllers
from hekla.errors import Conflict, NotFound
from hekla.local import builtins
from tests import make
from tests.integration.stage import Stage, perform
from tests.transports import BreaksAtWrite, Disturbed, nothing

T = TypeVar("T")

_GRACE_SECONDS = 1.0


class Bench(Stage):
    def __init__(self, break_at: int = 0, *, before: bool = False, batches: bool = True, seed: int = 0) -> None:
        super().__init__(seed)
        self._break_at = break_at
        self._before = before
        self._batches = batches
        self._tasks: asyncio.TaskGroup
        self._supervisor: asyncio.Task[None] | None = None
        self.transport: BreaksAtWrite
        self.flags: dict[str, Any] = {}  # how the controllers are run when they are started next
        self.lets_gangs_in = True
        self.runs_pods = True
        self.disturb: Callable[[str], Awaitable[Answer | None]] = nothing  # what becomes of the controllers' requests
        self.away_seconds = 0.0  # how long nobody controls after the controllers were cut off

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        await self.open_server()
        tasks.create_task(builtins.run(self.client, clock=self.clock, rng=self.rng))
        tasks.create_task(self._play_cluster())
        self.transport = self._connection()
        self.start_controllers()
        await self.until(self.takes_jobs, "the default queue is open")
        # Only what happens from here on is rehearsed.
        self.transport.writes = 0
        self.transport.number, self.transport.before = self._break_at, self._before

    def start_controllers(self) -> None:
        self._supervisor = self._tasks.create_task(self._supervise())

    async def stop_controllers(self) -> None:
        assert self._supervisor is not None
        self._supervisor.cancel()
        await asyncio.wait([self._supervisor])

    def watch(self, kind: Kind, hear: Callable[[Update], None]) -> None:
        """Tell `hear` of every change of a kind from here on."""
        informer = Informer(self.client, kind, rng=self.rng)
        informer.subscribe(hear)
        self._tasks.create_task(informer.run())

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something run until the bench is left."""
        self._tasks.create_task(work)

    async def create(self, job: Obj) -> Obj:
        return await self.client.create(JOB, job)

    async def command(self, action: str, job: Obj) -> None:
        await self.client.create(COMMAND, make.command(action, job))

    async def end(self, pod: str, phase: str = "Succeeded", exit_code: int = 0) -> None:
        """A container of the pod ends."""
        status = {"phase": phase, "containerStatuses": [make.container_status(phase, exit_code=exit_code)]}
        await self.client.patch(POD, pod, {"status": status}, "default", subresource="status")

    async def scale(self, job: str, task: int, replicas: int) -> None:
        while True:
            obj = await self.client.get(JOB, job, "default")
            change = replicas - obj["spec"]["tasks"][task]["replicas"]
            obj["spec"]["tasks"][task].update(replicas=replicas, minAvailable=replicas)
            obj["spec"]["minAvailable"] += change
            with contextlib.suppress(Conflict):
                await self.client.update(JOB, obj)
                return

    async def until_running(self, count: int) -> list[Obj]:
        """That many pods run and none is going; the Job says so, too."""
        await self.until(lambda: self._are_running(count), f"{count} pods run")
        return [pod for pod in self.pods() if pod["status"].get("phase") == "Running"]

    async def settle(self) -> None:
        """Let everything that is going to happen happen."""
        await asyncio.sleep(60)

    def _are_running(self, count: int) -> bool:
        status = self.job("demo").get("status") or {}
        if (status.get("running") or 0) != count or status.get("terminating"):
            return False
        pods = self.pods()
        alive = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return len(alive) == count and not any(map(is_deleting, pods))

    async def _play_cluster(self) -> None:
        groups, pods = Informer(self.client, POD_GROUP, rng=self.rng), Informer(self.client, POD, rng=self.rng)
        async with asyncio.TaskGroup() as tasks:
            groups.subscribe(lambda update: _start(tasks, self._let_in(update)))
            pods.subscribe(lambda update: _start(tasks, _run_pod(self.client, update)) if self.runs_pods else None)
            tasks.create_task(groups.run())
            tasks.create_task(pods.run())

    async def _let_in(self, update: Update) -> None:
        group = update.new
        if self.lets_gangs_in and group is not None and not (group.get("status") or {}).get("phase"):
            inqueue = {"status": {"phase": "Inqueue"}}
            with contextlib.suppress(NotFound, Conflict):
                await self.client.patch(POD_GROUP, name_of(group), inqueue, namespace_of(group))

    def _connection(self) -> BreaksAtWrite:
        line = Disturbed(InProcessTransport(self.app), lambda request: self.disturb(request))
        return BreaksAtWrite(line, batches=self._batches)

    async def _supervise(self) -> None:
        """Run the controllers; when they have been cut off, start new ones with a whole connection."""
        while True:
            running = asyncio.create_task(
                controllers.run(
                    Client(self.transport), clock=self.clock, rng=random.Random(self.rng.random()), **self.flags
                )
            )
            try:
                await self.transport.cut.wait()
            finally:
                running.cancel()
                await asyncio.wait([running])
            await asyncio.sleep(self.away_seconds)
            self.transport = self._connection()


def on_bench(
    script: Callable[[Bench], Awaitable[T]],
    *,
    break_at: int = 0,
    before: bool = False,
    batches: bool = True,
    seed: int = 0,
) -> tuple[T, int]:
    """Run a script; its result, and how many writes the controllers made.

    Without `batches` they find a server like a real one, that takes each write by itself.
    """
    bench = Bench(break_at, before=before, batches=batches, seed=seed)

    async def main() -> T:
        result: list[T] = []
        with contextlib.suppress(_Done):
            try:
                async with asyncio.TaskGroup() as tasks:
                    await bench.open(tasks)
                    result.append(await script(bench))
                    raise _Done
            except* _Done:
                pass
        return result[0]

    return perform(main), bench.transport.writes


class _Done(Exception):
    pass


def _start(tasks: asyncio.TaskGroup, work: Any) -> None:
    tasks.create_task(work)


async def _run_pod(client: Client, update: Update) -> None:
    pod = update.new
    if pod is None or (pod["spec"].get("schedulingGates") and not is_deleting(pod)):
        return
    name, namespace = name_of(pod), namespace_of(pod)
    with contextlib.suppress(NotFound, Conflict):
        if is_deleting(pod):
            if update.old is None or not is_deleting(update.old):
                await asyncio.sleep(_GRACE_SECONDS)
                await client.delete(POD, name, namespace, uid=uid_of(pod), grace_seconds=0)
        elif not pod["spec"].get("nodeName"):
            await client.bind(namespace, name, "node-0", uid=uid_of(pod))
        elif pod["status"].get("phase") == "Pending":
            status = {"phase": "Running", "containerStatuses": [make.container_status("Running")]}
            patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
            await client.patch(POD, name, patch, namespace, subresource="status")
