"""The whole system in one event loop: API server on a memory store, controllers, scheduler, simulated nodes.

Time is virtual (`virtual_loop`), randomness comes from one seed, nothing touches a socket. Components can be killed
(their connection is cut at once, so nothing more of theirs is written) and started again. `trace` holds every commit,
its moment, its author and its content: two worlds with the same seed and the same script have the same trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from hekla.api.kinds import NODE
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers import controllers
from hekla.errors import Disconnected
from hekla.local import builtins
from hekla.node.simulated import SimulatedNode, run_simulated
from hekla.scheduler import scheduler
from tests.integration.stage import Commit, Stage, actor, perform
from tests.transports import Severable

T = TypeVar("T")

COMPONENTS = ("builtins", "controllers", "scheduler", "nodes")


@dataclass(frozen=True, slots=True)
class Running:
    task: asyncio.Task[None]
    connection: Severable
    client: Client


class World(Stage):
    def __init__(
        self,
        seed: int = 0,
        nodes: int = 1,
        cpu: str = "4",
        *,
        settings: scheduler.SchedulerSettings | None = None,
    ) -> None:
        super().__init__(seed)
        self.nodes = [SimulatedNode(name=f"node-{index}", cpu=cpu, memory="8Gi") for index in range(nodes)]
        self.running: dict[str, Running] = {}
        self._settings = settings or scheduler.SchedulerSettings()
        self._trace = hashlib.sha256()
        self.commits = 0

    async def __aenter__(self) -> World:
        await self.open_server()
        self.store.observers.append(self._note)
        for name in COMPONENTS:
            self.start(name)
        await self.until(self._is_ready, "the nodes are registered and jobs are taken")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in list(self.running):
            await self.kill(name)

    def start(self, component: str, name: str = "") -> None:
        """Start a component; under another `name` beside one that runs already."""
        name = name or component
        connection = self.connect(name)
        client = Client(connection, user_agent=name)
        rng = random.Random(self.rng.getrandbits(64))
        work = self._run(component, name, client, rng)
        self.running[name] = Running(asyncio.create_task(work, name=name), connection, client)

    async def kill(self, name: str) -> None:
        """Like kill -9: from this moment on nothing of it reaches the server."""
        running = self.running.pop(name)
        running.connection.cut.set()
        ended = running.task.done() and not running.task.cancelled() and running.task.exception()
        running.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup, Disconnected):
            await running.task
        if ended:
            raise ended

    def connect(self, name: str) -> Severable:
        """The connection a component is given."""
        return Severable(InProcessTransport(self.app))

    def clock_of(self, component: str) -> Clock:
        """The clock a component is given."""
        return self.clock

    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    def _is_ready(self) -> bool:
        nodes = [node for node in self.store.objects(NODE) if (node.get("status") or {}).get("allocatable")]
        return len(nodes) >= len(self.nodes) and self.takes_jobs()

    def _note(self, commit: Commit) -> None:
        self.commits += 1
        for change in commit.changes:
            self._trace.update(f"{commit.at:.6f} {commit.actor} {change.type} {change.entry.key}".encode())
            self._trace.update(change.entry.value)

    async def _run(self, component: str, name: str, client: Client, rng: random.Random) -> None:
        actor.set(name)
        clock = self.clock_of(component)
        match component:
            case "builtins":
                await builtins.run(client, clock=clock, rng=rng)
            case "controllers":
                await controllers.run(client, clock=clock, rng=rng)
            case "scheduler":
                await scheduler.run(client, clock=clock, rng=rng, settings=self._settings)
            case "nodes":
                await run_simulated(client, self.nodes, clock=clock, rng=rng)


def in_world(script: Callable[[World], Awaitable[T]], *, seed: int = 0, world: World | None = None) -> tuple[T, World]:
    """Run a script in a fresh world; its result and the world, for the trace."""
    world = world or World(seed)

    async def main() -> T:
        async with world:
            return await script(world)

    return perform(main), world
