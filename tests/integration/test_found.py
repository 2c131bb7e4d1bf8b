"""What rehearsals have found, each reduced to what it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from hekla.api.batches import BATCH_PATH
from hekla.api.kinds import COMMAND, JOB, POD, QUEUE
from hekla.client.inprocess import InProcessTransport
from hekla.client.transport import Answer, StreamedAnswer, Transport
from hekla.errors import Disconnected, ServiceUnavailable
from tests import make
from tests.integration.stage import Commit, actor, storage_of
from tests.integration.test_whole_system import job
from tests.integration.world import World, in_world
from tests.transports import Severable, refusal

Disturb = Callable[[str], Awaitable[Answer | None]]


class Disturbed(Severable):
    """What `disturb` says to a request, "METHOD path", happens to it first; an answer it gives is the answer."""

    def __init__(self, inner: Transport, disturb: Disturb) -> None:
        super().__init__(inner)
        self._disturb = disturb

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        answer = await self._disturb(f"{method} {path}")
        return answer or await super().send(method, path, body=body, headers=headers, timeout=timeout)


class DisturbedWorld(World):
    def __init__(self, disturb: Disturb) -> None:
        super().__init__()
        self._disturb = disturb

    def connect(self, name: str) -> Severable:
        return Disturbed(InProcessTransport(self.app), self._disturb)


async def complete(world: World) -> None:
    await world.client.create(JOB, job("steady", 2))
    await world.until_phase("Completed", "steady")


def test_a_server_that_cannot_say_whether_it_takes_batches_is_asked_again() -> None:
    """The scheduler ended for good when the very first question about batches was refused."""
    asked = []

    async def disturb(request: str) -> Answer | None:
        if request != f"GET {BATCH_PATH}":
            return None
        asked.append(actor.get())
        return refusal(ServiceUnavailable("not now")) if asked.count(actor.get()) < 3 else None

    in_world(complete, world=DisturbedWorld(disturb))
    assert asked.count("scheduler") == 3


def test_a_gang_whose_binding_was_lost_is_tried_again_as_one() -> None:
    """Its pods were asked about one after the other, and the first was bound alone while the last was not known."""
    lost = []

    async def disturb(request: str) -> Answer | None:
        if request == "POST /apis/hekla.dev/v1/bindingbatches" and not lost:
            lost.append(request)
            raise Disconnected("the request was lost")
        if request == "GET /api/v1/namespaces/default/pods/steady-main-1":
            await asyncio.sleep(5)
        return None

    world = DisturbedWorld(disturb)
    bound: list[int] = []

    async def script(world: World) -> None:
        world.store.observers.append(lambda commit: bound.append(_bound_by(commit)))
        await complete(world)

    in_world(script, world=world)
    assert [number for number in bound if number] == [2]
    assert lost


def test_a_command_for_a_queue_is_not_carried_out_again_by_one_who_hears_late() -> None:
    """An old leader, whose watch of commands had stopped, closed a queue again that had been opened since."""
    stalled: list[asyncio.Event] = []

    async def script(world: World) -> None:
        stalled.append(asyncio.Event())
        world.start("controllers", "old controllers")
        await asyncio.sleep(1)
        queue = await world.client.get(QUEUE, "default")
        for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
            await world.client.create(COMMAND, make.command(action, queue, "Queue"))
            await world.until(lambda state=state: _state(world) == state, f"the queue is {state}")
        await asyncio.sleep(60)
        assert _state(world) == "Open"
        stalled[0].set()

    in_world(script, world=LateWorld(stalled))


class Late(Severable):
    """A watch of commands that begins, and then says nothing until it may."""

    def __init__(self, inner: Transport, stalled: list[asyncio.Event]) -> None:
        super().__init__(inner)
        self._stalled = stalled

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[StreamedAnswer]:
        async with super().stream(method, path, headers=headers) as answer:
            yield replace(answer, chunks=self._late(answer.chunks)) if "/commands" in path else answer

    async def _late(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The first command comes through, its end and everything after it later."""
        first = True
        async for chunk in chunks:
            if not first:
                await self._stalled[0].wait()
            first = False
            yield chunk


class LateWorld(World):
    def __init__(self, stalled: list[asyncio.Event]) -> None:
        super().__init__()
        self._stalled = stalled

    def connect(self, name: str) -> Severable:
        if name == "old controllers":
            return Late(InProcessTransport(self.app), self._stalled)
        return super().connect(name)


def _bound_by(commit: Commit) -> int:
    pods = [change for change in commit.changes if change.entry.key.resource == storage_of(POD)]
    before = [change.previous.decode()["spec"].get("nodeName") if change.previous else None for change in pods]
    return sum(1 for old, change in zip(before, pods) if not old and change.entry.decode()["spec"].get("nodeName"))


def _state(world: World) -> str:
    return str((world.store.object(QUEUE, "default") or {}).get("status", {}).get("state"))
