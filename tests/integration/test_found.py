"""What rehearsals have found, each reduced to what it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

from hekla.api.batches import BATCH_PATH
from hekla.api.kinds import COMMAND, CONFIG_MAP, ENDPOINTS, JOB, POD, POD_GROUP, QUEUE, SERVICE, Obj
from hekla.api.meta import controller_of, name_of
from hekla.apiserver.store.store import ChangeType
from hekla.client.inprocess import InProcessTransport
from hekla.client.transport import Answer
from hekla.errors import Disconnected, ServiceUnavailable, TooManyRequests
from tests import make
from tests.integration.beliefs import wrong_beliefs
from tests.integration.stage import Commit, actor, storage_of
from tests.integration.test_whole_system import job
from tests.integration.world import World, in_world
from tests.transports import Disturbed, Severable, Stalling, refusal

Disturb = Callable[[str], Awaitable[Answer | None]]


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
    world = StallingWorld("old controllers", "/commands")

    async def script(_: World) -> None:
        world.start("controllers", "old controllers")
        await asyncio.sleep(1)
        queue = await world.client.get(QUEUE, "default")
        await world.client.create(COMMAND, make.command("CloseQueue", queue, "Queue"))
        world.watches.stall()
        await world.until(lambda: _state(world) == "Closed", "the queue is closed")
        await world.client.create(COMMAND, make.command("OpenQueue", queue, "Queue"))
        await world.until(lambda: _state(world) == "Open", "the queue is open")
        await asyncio.sleep(60)
        assert _state(world) == "Open"

    in_world(script, world=world)


def test_a_command_is_not_judged_on_a_picture_older_than_the_last_decision() -> None:
    """After half a minute without news a controller took its own write for lost, and a resume for pointless."""
    world = StallingWorld("controllers", "/jobs")

    async def script(_: World) -> None:
        await world.client.create(JOB, job("first", 4, seconds=1000))
        await world.until_phase("Running", "first")
        made = await world.client.create(JOB, job("steady"))
        await world.until_phase("Pending", "steady")
        await asyncio.sleep(1)
        world.watches.stall()
        for action in ("AbortJob", "ResumeJob"):
            await world.client.create(COMMAND, make.command(action, made))
            await asyncio.sleep(60)
        world.watches.flow()
        await world.client.delete(JOB, "first", "default")
        await world.until_phase("Completed", "steady")
        assert world.job("steady")["status"]["retryCount"] == 1

    in_world(script, world=world)


def test_a_command_that_was_noted_as_begun_is_not_begun_again_by_one_who_has_not_heard_of_it() -> None:
    """The note was written anew over the first one, with the version after the restart: the Job was restarted twice."""
    world = StallingWorld("controllers", "/commands")
    deleted: list[str] = []

    async def disturb(request: str) -> Answer | None:
        if "/commands/" in request and request.startswith("PATCH"):
            world.watches.stall()
        if "/commands/" in request and request.startswith("DELETE"):
            deleted.append(request)
            if len(deleted) < 4:
                raise Disconnected("the request was lost")
        return None

    async def script(_: World) -> None:
        made = await world.client.create(JOB, job("endless", 2, seconds=1_000_000))
        await world.until_phase("Running", "endless")
        world.asked.before = disturb
        await world.client.create(COMMAND, make.command("RestartJob", made))
        await asyncio.sleep(60)
        world.watches.flow()
        await world.until(lambda: not world.store.objects(COMMAND), "the command is gone")
        await world.until_phase("Running", "endless")
        assert deleted
        assert world.job("endless")["status"]["retryCount"] == 1

    in_world(script, world=world)


def test_nothing_is_made_again_and_again_for_a_job_that_is_gone() -> None:
    """While its watch of Jobs stood still a controller made, as fast as it could, what the collector took away."""
    world = StallingWorld("controllers", "/jobs")
    made: list[str] = []

    def observe(commit: Commit) -> None:
        made.extend(change.entry.key.name for change in commit.changes if change.type is ChangeType.ADDED)
        if len(made) > 1000:
            # Time does not pass where everybody is always busy.
            world.watches.flow()

    async def script(_: World) -> None:
        await world.client.create(JOB, job("gone", seconds=1000))
        await world.until_phase("Running", "gone")
        await asyncio.sleep(1)
        world.watches.stall()
        world.store.observers.append(observe)
        await world.client.delete(JOB, "gone", "default", propagation="Background")
        await asyncio.sleep(60)
        again = [name for name in made if name.startswith("gone")]
        assert len(again) < 20, again
        world.watches.flow()
        await world.until(lambda: not _left(world), "all of it is gone")

    in_world(script, world=world)


def test_a_queue_does_not_keep_what_it_held_for_a_moment() -> None:
    """Held back for a second, the higher figure was written when the lower one was right again, and stayed."""

    async def script(world: World) -> None:
        await world.client.create(JOB, job("endless", 2, seconds=1_000_000))
        await world.until(lambda: _allocated(world) == "2", "the queue says what it holds")
        await world.client.create(JOB, job("quick", 2, seconds=0.1))
        await world.until_phase("Completed", "quick")
        await asyncio.sleep(60)
        assert _allocated(world) == "2"

    in_world(script)


def test_what_one_makes_who_has_not_heard_of_a_jobs_end_goes_too() -> None:
    """An old leader whose picture of Jobs was old made Services and the like again, and there they stayed."""
    world = StallingWorld("old controllers", "/jobs", until_told="GET /api/v1/pods")

    async def script(_: World) -> None:
        await world.client.create(JOB, job("steady", 2, seconds=5))
        await world.until_phase("Running", "steady")
        world.start("controllers", "old controllers")
        await asyncio.sleep(1)
        world.watches.stall()
        await world.until_phase("Completed", "steady")
        await asyncio.sleep(1)
        world.told.set()
        made = {"steady", "steady-svc"}
        await world.until(lambda: made <= {name_of(one) for one in _objects(world)}, "the old leader makes them again")
        await world.until(lambda: not _objects(world), "they are gone")

    in_world(script, world=world)


def test_nothing_is_remembered_of_a_job_that_goes_while_it_is_looked_at() -> None:
    """It had been forgotten when it went, and then the look that was under way remembered its gang."""
    world = StallingWorld("controllers", "/nothing", until_told="POST /api/v1/namespaces/default/configmaps")

    async def script(_: World) -> None:
        await world.client.create(JOB, job("steady"))
        await world.until_phase("Pending", "steady")
        await asyncio.sleep(1)
        await world.client.delete(JOB, "steady", "default")
        await world.until_gone("steady")
        await asyncio.sleep(1)
        world.told.set()
        await asyncio.sleep(60)
        assert wrong_beliefs({id(each.client): name for name, each in world.running.items()}, world.store) == []

    in_world(script, world=world)


def test_pods_are_made_again_when_a_server_that_is_busy_has_had_its_time() -> None:
    """They were asked for again after 5 ms, 10 ms and so on, of a server that had asked for ten seconds."""
    asked: list[float] = []

    async def disturb(request: str) -> Answer | None:
        if request != "POST /apis/hekla.dev/v1/objectbatches":
            return None
        asked.append(world.clock.monotonic())
        busy = TooManyRequests("not now", details={"retryAfterSeconds": 10})
        return refusal(busy) if len(asked) < 3 else None

    world = DisturbedWorld(disturb)
    in_world(complete, world=world)
    assert [round(later - earlier) for earlier, later in pairwise(asked[:3])] == [10, 10]


class StallingWorld(World):
    """The watches of one component for paths with `part` in them can be stalled.

    What it asks that begins with `until_told` waits until it is `told`.
    """

    def __init__(self, component: str, part: str, *, until_told: str = "") -> None:
        super().__init__()
        self._component = component
        self._part = part
        self._until_told = until_told
        self.told = asyncio.Event()
        self.asked: Disturbed
        self.watches: Stalling

    def connect(self, name: str) -> Severable:
        inner = InProcessTransport(self.app)
        if name != self._component:
            return Severable(inner)
        self.asked = Disturbed(inner, self._wait_until_told)
        self.watches = Stalling(self.asked, self._part)
        return self.watches

    async def _wait_until_told(self, request: str) -> Answer | None:
        if self._until_told and request.startswith(self._until_told):
            await self.told.wait()
        return None


def _objects(world: World) -> list[Obj]:
    """What plugins and the gang of a Job need."""
    return [one for kind in (SERVICE, CONFIG_MAP, POD_GROUP) for one in world.store.objects(kind) if controller_of(one)]


def _bound_by(commit: Commit) -> int:
    pods = [change for change in commit.changes if change.entry.key.resource == storage_of(POD)]
    before = [change.previous.decode()["spec"].get("nodeName") if change.previous else None for change in pods]
    return sum(1 for old, change in zip(before, pods) if not old and change.entry.decode()["spec"].get("nodeName"))


def _left(world: World) -> list[str]:
    kinds = (CONFIG_MAP, ENDPOINTS, POD, POD_GROUP, SERVICE)
    return [name_of(obj) for kind in kinds for obj in world.store.objects(kind) if name_of(obj).startswith("gone")]


def _state(world: World) -> str:
    return str((world.store.object(QUEUE, "default") or {}).get("status", {}).get("state"))


def _allocated(world: World) -> str:
    status = (world.store.object(QUEUE, "default") or {}).get("status") or {}
    return str((status.get("allocated") or {}).get("cpu"))
