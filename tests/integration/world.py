"""The whole system in one event loop: API server on a memory store, controllers, scheduler, simulated nodes.

Time is virtual (`virtual_loop`), randomness comes from one seed, nothing touches a socket. Components can be killed
(their connection is cut at once, so nothing more of theirs is written) and started again. `trace` holds every write and
the virtual time of it: two worlds with the same seed and the same script have the same trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar

from hekla import controllers
from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import JOB, NODE, POD, POD_GROUP, Kind, Obj
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import Application, InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Answer, StreamedAnswer
from hekla.clock import LoopClock
from hekla.errors import Disconnected
from hekla.local import builtins
from hekla.local.bootstrap import install_crds
from hekla.node.simulated import SimulatedNode, run_simulated
from hekla.scheduler import scheduler
from tests.integration.virtual_loop import run_virtually

T = TypeVar("T")

_PATIENCE_SECONDS = 600.0


class World:
    def __init__(self, seed: int = 0, nodes: int = 1, cpu: str = "4", memory: str = "8Gi") -> None:
        self.clock = LoopClock()
        self.trace: list[str] = []
        self._rng = random.Random(seed)
        self._nodes = [SimulatedNode(name=f"node-{index}", cpu=cpu, memory=memory) for index in range(nodes)]
        self._app: Any = None
        self._running: dict[str, tuple[asyncio.Task[None], _CuttableTransport]] = {}
        self.client: Client
        self.store: MemoryStore

    async def __aenter__(self) -> World:
        self.store = MemoryStore(self.clock)
        self._app = build_app(self.store, clock=self.clock, rng=self._rng, admission=VolcanoAdmission)
        await self._app.start()
        self.client = Client(InProcessTransport(self._app), user_agent="test")
        await install_crds(self.client)
        for name in ("builtins", "controllers", "scheduler", "nodes"):
            self.start(name)
        await self.until(lambda: self._has_nodes(), what="the nodes are registered")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in list(self._running):
            await self.kill(name)

    def start(self, name: str) -> None:
        transport = _CuttableTransport(self._application(name))
        client = Client(transport, user_agent=name)
        rng = random.Random(self._rng.getrandbits(64))
        self._running[name] = (asyncio.create_task(self._component(name)(client, rng), name=name), transport)

    async def kill(self, name: str) -> None:
        """Like kill -9: from this moment on nothing of it reaches the server."""
        task, transport = self._running.pop(name)
        transport.cut = True
        failed = task.done() and not task.cancelled() and task.exception()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup, Disconnected):
            await task
        if failed:
            raise failed

    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    async def until(self, holds: Callable[[], Awaitable[T]], *, what: str = "") -> T:
        """Let virtual time pass until it holds; fail when it does not within ten virtual minutes."""
        deadline = self.clock.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = await holds()
            if answer:
                return answer
            assert self.clock.monotonic() < deadline, f"never: {what or holds}; pods {await self.pod_phases()}"
            for name, (task, _) in self._running.items():
                assert not task.done(), f"{name} ended: {task.exception()}"
            await asyncio.sleep(0.05)

    async def until_phase(self, job: str, phase: str) -> Obj:
        async def reached() -> Obj | None:
            found = await self.client.find(JOB, job, "default")
            state = ((found or {}).get("status") or {}).get("state") or {}
            return found if state.get("phase") == phase else None

        found = await self.until(reached, what=f"{job} is {phase}")
        assert found is not None
        return found

    async def pods(self) -> list[Obj]:
        return (await self.client.list(POD)).items

    async def pod_phases(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in await self.pods()}

    async def groups(self) -> list[Obj]:
        return (await self.client.list(POD_GROUP)).items

    async def all(self, kind: Kind) -> list[Obj]:
        return (await self.client.list(kind)).items

    async def _has_nodes(self) -> bool:
        return len((await self.client.list(NODE)).items) >= len(self._nodes)

    def _application(self, name: str) -> Application:
        async def call(scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] != "GET":
                self.trace.append(f"{self.clock.monotonic():.6f} {name} {scope['method']} {scope['path']}")
            await self._app(scope, receive, send)

        return call

    def _component(self, name: str) -> Callable[[Client, random.Random], Any]:
        clock = self.clock
        return {
            "builtins": lambda client, rng: builtins.run(client, clock=clock, rng=rng),
            "controllers": lambda client, rng: controllers.run(client, clock=clock, rng=rng),
            "scheduler": lambda client, rng: scheduler.run(
                client, clock=clock, rng=rng, settings=scheduler.SchedulerSettings()
            ),
            "nodes": lambda client, rng: run_simulated(client, self._nodes, clock=clock, rng=rng),
        }[name]


class _CuttableTransport:
    """A connection that can be cut for good, in the middle of anything."""

    def __init__(self, application: Application) -> None:
        self._inner = InProcessTransport(application)
        self.cut = False

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
        answer = await self._inner.send(method, path, body=body, headers=headers, timeout=timeout)
        self._check()
        return answer

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._stream(method, path, headers)

    @contextlib.asynccontextmanager
    async def _stream(self, method: str, path: str, headers: Mapping[str, str] | None) -> AsyncIterator[StreamedAnswer]:
        self._check()
        async with self._inner.stream(method, path, headers=headers) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()

    def _check(self) -> None:
        if self.cut:
            raise Disconnected("cut off")


def in_world(
    script: Callable[[World], Awaitable[T]], *, seed: int = 0, nodes: int = 1, cpu: str = "4"
) -> tuple[T, World]:
    """Run a script in a fresh world; its result and the world, for the trace."""
    world: list[World] = []

    async def main() -> T:
        async with World(seed, nodes, cpu) as made:
            world.append(made)
            return await script(made)

    result = run_virtually(main())
    return result, world[0]
