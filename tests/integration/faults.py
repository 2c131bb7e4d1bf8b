"""A world in which things go wrong: connections fail before or after a write took effect, watches end, components die.

What goes wrong and when comes from the seed. `calm()` ends the trouble; from then on everything has to come right.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from hekla.api.kinds import COMMAND, CONFIG_MAP, JOB, POD, POD_GROUP, SECRET, SERVICE, Obj
from hekla.api.meta import controller_of, uid_of
from hekla.client.inprocess import Application, InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Answer, StreamedAnswer
from hekla.errors import Disconnected
from tests.integration.world import World

COMPONENTS = ("controllers", "scheduler", "nodes", "builtins")
_REFUSALS = ((409, "Conflict"), (500, "InternalError"), (429, "TooManyRequests"))


class FaultyWorld(World):
    def __init__(self, seed: int, nodes: int = 2, cpu: str = "4") -> None:
        super().__init__(seed, nodes, cpu)
        self.faults = random.Random(f"faults {seed}")
        self.trouble = False
        self.stories: list[str] = []

    def start(self, name: str) -> None:
        transport = FaultyTransport(self._application(name), self, name)
        client = Client(transport, user_agent=name)
        rng = random.Random(self._rng.getrandbits(64))
        self._running[name] = (asyncio.create_task(self._component(name)(client, rng), name=name), transport)

    async def rage(self, seconds: float) -> None:
        """Faults for a while, with kills among them."""
        self.trouble = True
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await asyncio.sleep(self.faults.uniform(0.01, 4.0))
            if self.faults.random() < 0.5:
                name = self.faults.choice(COMPONENTS)
                self.stories.append(f"{self.clock.monotonic():.3f} kill {name}")
                await self.kill(name)
                await asyncio.sleep(self.faults.uniform(0.0, 2.0))
                self.start(name)

    def calm(self) -> None:
        self.trouble = False


class FaultyTransport:
    def __init__(self, application: Application, world: FaultyWorld, name: str) -> None:
        self._inner = InProcessTransport(application)
        self._world = world
        self._name = name
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
        fault = self._fault(method, path)
        if fault == "lost before":
            raise Disconnected("rehearsed")
        if fault == "refused" and method != "GET":
            return _refusal(*self._world.faults.choice(_REFUSALS))
        answer = await self._inner.send(method, path, body=body, headers=headers, timeout=timeout)
        self._check()
        if fault == "lost after":
            raise Disconnected("rehearsed")
        return answer

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._stream(method, path, headers)

    @contextlib.asynccontextmanager
    async def _stream(self, method: str, path: str, headers: Mapping[str, str] | None) -> AsyncIterator[StreamedAnswer]:
        self._check()
        if self._fault("WATCH", path) is not None:
            raise Disconnected("rehearsed")
        async with self._inner.stream(method, path, headers=headers) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()

    def _fault(self, method: str, path: str) -> str | None:
        world = self._world
        if not world.trouble or world.faults.random() > 0.08:
            return None
        kind = world.faults.choice(("lost before", "lost after", "refused"))
        world.stories.append(f"{world.clock.monotonic():.3f} {self._name} {method} {path}: {kind}")
        return kind

    def _check(self) -> None:
        if self.cut:
            raise Disconnected("cut off")


def _refusal(code: int, reason: str) -> Answer:
    status = {"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "rehearsed"}
    return Answer(status=code, headers={}, body=json.dumps(status).encode())


def broken_promises(before: dict[str, Obj], world: dict[str, list[Obj]], capacity: int) -> list[str]:
    """What must hold when everything has come to rest, and does not."""
    jobs = {uid_of(job): job for job in world["jobs"]}
    problems: list[str] = []
    # Nothing outlives its owner (I4, I9), and nothing has been made twice.
    for plural in ("pods", "podgroups", "services", "configmaps", "secrets"):
        for obj in world[plural]:
            owner = controller_of(obj)
            if owner is not None and owner["kind"] == "Job" and owner["uid"] not in jobs:
                problems.append(f"{plural} {obj['metadata']['name']} has outlived its job")
    for job in jobs.values():
        problems += _of_job(job, world)
    problems += [f"command {one['metadata']['name']} was never carried out" for one in world["commands"]]
    problems += [f"{name} is gone" for name in before if name not in {job["metadata"]["name"] for job in jobs.values()}]
    bound = [pod for pod in world["pods"] if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running"]
    if len(bound) > capacity:
        problems.append(f"{len(bound)} pods run where {capacity} fit")
    return problems


def _of_job(job: Obj, world: dict[str, list[Obj]]) -> list[str]:
    name, status, spec = job["metadata"]["name"], job["status"], job["spec"]
    pods = [pod for pod in world["pods"] if (controller_of(pod) or {}).get("uid") == uid_of(job)]
    phases = [pod["status"]["phase"] for pod in pods]
    problems = []
    # Counts equal reality, and what has ended has nothing running (I8).
    for counter, phase in (
        ("pending", "Pending"),
        ("running", "Running"),
        ("succeeded", "Succeeded"),
        ("failed", "Failed"),
    ):
        if (status.get(counter) or 0) != phases.count(phase):
            problems.append(f"{name}: {counter} is {status.get(counter)}, pods are {phases}")
    phase = status["state"]["phase"]
    if phase in ("Completed", "Failed", "Terminated", "Aborted") and {"Pending", "Running"} & set(phases):
        problems.append(f"{name} is {phase} and has pods {phases}")
    # All or nothing (I3), and every pod that should be there (I6).
    wanted = sum(task.get("replicas") or 0 for task in spec["tasks"])
    if phase in ("Pending", "Running") and len(pods) != wanted:
        problems.append(f"{name} is {phase} and has {len(pods)} of {wanted} pods")
    if phase == "Pending" and 0 < phases.count("Running") < spec["minAvailable"]:
        problems.append(f"{name} runs {phases.count('Running')} of a gang of {spec['minAvailable']}")
    if (status.get("retryCount") or 0) > spec["maxRetry"]:
        problems.append(f"{name}: {status['retryCount']} retries of {spec['maxRetry']}")
    return problems


async def everything(world: World) -> dict[str, list[Obj]]:
    kinds = (JOB, POD, POD_GROUP, SERVICE, CONFIG_MAP, SECRET, COMMAND)
    return {kind.plural: await world.all(kind) for kind in kinds}


def phases_of(jobs: list[Obj]) -> dict[str, Any]:
    return {job["metadata"]["name"]: job["status"]["state"]["phase"] for job in jobs}
