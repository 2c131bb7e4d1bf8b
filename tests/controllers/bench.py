"""The controllers on an API server in memory, with a scheduler and a kubelet that only do what is asked of them.

Time is virtual. PodGroups are let in at once and their pods are bound and run; a test decides how pods end. The
controllers can be cut off at any of their writes, before or after it takes effect, and are then started anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from hekla import controllers
from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import COMMAND, JOB, POD, POD_GROUP, QUEUE, Kind, Obj
from hekla.api.meta import is_deleting, name_of, namespace_of, uid_of
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.informer import Informer, Update
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Answer, StreamedAnswer, Transport
from hekla.clock import LoopClock
from hekla.errors import Conflict, Disconnected, NotFound
from hekla.local import builtins
from hekla.local.bootstrap import install_crds
from tests import make
from tests.integration.virtual_loop import run_virtually

T = TypeVar("T")

_GRACE_SECONDS = 1.0
_PATIENCE_SECONDS = 300.0


class FailingTransport:
    """Counts writes and breaks at one of them: `before` it reaches the server, or after, with the answer lost."""

    def __init__(self, inner: Transport, break_at: int, *, before: bool) -> None:
        self._inner = inner
        self._break_at = break_at
        self._before = before
        self.writes = 0
        self.broken = asyncio.Event()

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        self._check()
        breaks = False
        if method != "GET" and "/events" not in path:
            self.writes += 1
            breaks = self.writes == self._break_at
        if breaks and self._before:
            self.broken.set()
        self._check()
        answer = await self._inner.send(method, path, body=body, headers=headers, timeout=timeout)
        if breaks:
            self.broken.set()
        self._check()
        return answer

    @contextlib.asynccontextmanager
    async def _stream(self, method: str, path: str, headers: Mapping[str, str] | None) -> AsyncIterator[StreamedAnswer]:
        self._check()
        async with self._inner.stream(method, path, headers=headers) as answer:
            yield answer

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._stream(method, path, headers)

    async def close(self) -> None:
        await self._inner.close()

    def _check(self) -> None:
        if self.broken.is_set():
            raise Disconnected("cut off")


class Bench:
    def __init__(self, break_at: int, *, before: bool, seed: int) -> None:
        self.clock = LoopClock()
        self._rng = random.Random(seed)
        self._break_at = break_at
        self._before = before
        self._app: Any = None
        self._tasks: asyncio.TaskGroup
        self._supervisor: asyncio.Task[None] | None = None
        self.transport: FailingTransport
        self.client: Client

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._app = build_app(MemoryStore(self.clock), clock=self.clock, rng=self._rng, admission=VolcanoAdmission)
        await self._app.start()
        self.client = Client(InProcessTransport(self._app))
        await install_crds(self.client)
        tasks.create_task(builtins.run(self.client, clock=self.clock, rng=self._rng))
        tasks.create_task(_play_cluster(self.client, self._rng))
        self.transport = FailingTransport(InProcessTransport(self._app), 0, before=False)
        self.start_controllers()
        await self.until(lambda: self._queue_is_open(), "the default queue is open")
        # Only what happens from here on is rehearsed.
        self.transport.writes = 0
        self.transport._break_at = self._break_at
        self.transport._before = self._before

    def start_controllers(self) -> None:
        self._supervisor = self._tasks.create_task(self._supervise())

    async def stop_controllers(self) -> None:
        assert self._supervisor is not None
        self._supervisor.cancel()
        await asyncio.wait([self._supervisor])

    def watch(self, kind: Kind, hear: Callable[[Update], None]) -> None:
        """Tell `hear` of every change of a kind from here on."""
        informer = Informer(self.client, kind, rng=self._rng)
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

    async def until_phase(self, phase: str, job: str = "demo") -> Obj:
        async def reached() -> Obj | None:
            found = await self.client.find(JOB, job, "default") or {}
            return found if ((found.get("status") or {}).get("state") or {}).get("phase") == phase else None

        found = await self.until(reached, f"{job} is {phase}")
        assert found is not None
        return found

    async def until_running(self, count: int) -> list[Obj]:
        """That many pods run and none is going; the Job says so, too."""

        async def reached() -> list[Obj] | None:
            pods = (await self.client.list(POD, "default")).items
            alive = [pod for pod in pods if pod["status"].get("phase") == "Running" and not is_deleting(pod)]
            job = await self.client.get(JOB, "demo", "default")
            settled = len(alive) == count and not any(map(is_deleting, pods))
            status = job.get("status") or {}
            return (
                alive if settled and (status.get("running") or 0) == count and not status.get("terminating") else None
            )

        return await self.until(reached, f"{count} pods run") or []

    async def until_gone(self, job: str = "demo") -> None:
        async def gone() -> bool:
            return await self.client.find(JOB, job, "default") is None

        await self.until(gone, f"{job} is gone")

    async def settle(self) -> None:
        """Let everything that is going to happen happen."""
        await asyncio.sleep(60)

    async def until(self, holds: Callable[[], Awaitable[T | None]], what: str) -> T | None:
        deadline = self.clock.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = await holds()
            if answer:
                return answer
            if self.clock.monotonic() > deadline:
                jobs = [job.get("status") for job in await self.client.find_all(JOB)]
                pods = {name_of(pod): pod["status"].get("phase") for pod in await self.client.find_all(POD)}
                raise AssertionError(f"never: {what}; jobs {jobs}; pods {pods}")
            await asyncio.sleep(0.05)

    async def _queue_is_open(self) -> bool:
        queue = await self.client.find(QUEUE, "default")
        return ((queue or {}).get("status") or {}).get("state") == "Open"

    async def _supervise(self) -> None:
        """Run the controllers; when they have been cut off, start new ones with a whole connection."""
        while True:
            running = asyncio.create_task(
                controllers.run(Client(self.transport), clock=self.clock, rng=random.Random(self._rng.random()))
            )
            try:
                await self.transport.broken.wait()
            finally:
                running.cancel()
                await asyncio.wait([running])
            self.transport = FailingTransport(InProcessTransport(self._app), 0, before=False)


def on_bench(
    script: Callable[[Bench], Awaitable[T]], *, break_at: int = 0, before: bool = False, seed: int = 0
) -> tuple[T, int]:
    """Run a script; its result, and how many writes the controllers made."""

    async def main() -> tuple[T, int]:
        bench = Bench(break_at, before=before, seed=seed)
        result: list[T] = []
        with contextlib.suppress(_Done):
            try:
                async with asyncio.TaskGroup() as tasks:
                    await bench.open(tasks)
                    result.append(await script(bench))
                    raise _Done
            except* _Done:
                pass
        return result[0], bench.transport.writes

    return run_virtually(main())


class _Done(Exception):
    pass


async def _play_cluster(client: Client, rng: random.Random) -> None:
    groups, pods = Informer(client, POD_GROUP, rng=rng), Informer(client, POD, rng=rng)
    async with asyncio.TaskGroup() as tasks:
        groups.subscribe(lambda update: _start(tasks, _let_in(client, update)))
        pods.subscribe(lambda update: _start(tasks, _run_pod(client, update)))
        tasks.create_task(groups.run())
        tasks.create_task(pods.run())


def _start(tasks: asyncio.TaskGroup, work: Any) -> None:
    tasks.create_task(work)


async def _let_in(client: Client, update: Update) -> None:
    group = update.new
    if group is not None and not (group.get("status") or {}).get("phase"):
        with contextlib.suppress(NotFound, Conflict):
            await client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Inqueue"}}, namespace_of(group))


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
