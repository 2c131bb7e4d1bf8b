"""A change of leader while the old one's writes are still on their way: they arrive half a minute later and do nothing.

The Lease sees to it that the old leader sends no more; what it had sent must be refused by what each write says it was
decided on (I15).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hekla.api.kinds import EVENT, JOB, LEASE, POD, Obj
from hekla.api.meta import name_of, uid_of
from hekla.client.inprocess import InProcessTransport
from hekla.client.lease import LeaseLost
from hekla.client.transport import Answer, Request, Transport
from tests import make
from tests.integration.faults import FaultyConnection
from tests.integration.faulty_world import LEASES, LED, FaultyWorld
from tests.integration.invariants import ALWAYS, a_gang_is_bound_together
from tests.integration.roles import ENDLESS
from tests.integration.stage import Commit, perform, storage_of
from tests.integration.test_whole_system import job
from tests.transports import Relay

_LATE_SECONDS = 30.0


class Detaining(Relay):
    """From `begin` on, some writes stay on their way until `deliver`, whatever becomes of who sent them."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._detained: tuple[str, ...] = ()
        self._passing = 0
        self._arrive = asyncio.Event()
        self._under_way: list[asyncio.Task[Answer]] = []
        self.sent: list[str] = []

    def begin(self, *detained: str, passing: int = 0) -> None:
        """Keep what has one of these in its path, and renewals of the Lease; of the former so many pass before."""
        self._detained, self._passing = detained, passing

    async def deliver(self) -> None:
        """Let everything arrive."""
        self._arrive.set()
        await asyncio.wait(self._under_way)

    async def send(self, request: Request) -> Answer:
        if not self._detains(request):
            return await super().send(request)
        self.sent.append(request.place)
        self._under_way.append(asyncio.create_task(self._arriving(request)))
        return await asyncio.shield(self._under_way[-1])

    def _detains(self, request: Request) -> bool:
        if not request.writes or not self._detained:
            return False
        if any(part in request.path for part in self._detained):
            self._passing -= 1
            return self._passing < 0
        return "/leases" in request.path

    async def _arriving(self, request: Request) -> Answer:
        await self._arrive.wait()
        return await super().send(request)


class TwoOfEach(FaultyWorld):
    """Two schedulers and two sets of controllers, of which one each leads; every commit is judged."""

    def __init__(self, *, batches: bool = True) -> None:
        super().__init__(0, nodes=2)
        self.trouble.batches = batches
        self.trouble.leases = True
        self._always = tuple(one for one in ALWAYS if batches or one is not a_gang_is_bound_together)
        self.networks: dict[str, Detaining] = {}

    async def __aenter__(self) -> TwoOfEach:
        await super().__aenter__()
        for component in LED:
            self.start(component, f"other {component}")
        return self

    def connect(self, name: str) -> FaultyConnection:
        self.networks[name] = Detaining(InProcessTransport(self.app))
        return FaultyConnection(self.networks[name], name, self.trouble, self._died)

    def holder(self, component: str) -> str:
        lease = self.store.object(LEASE, component, LEASES) or {}
        return str((lease.get("spec") or {}).get("holderIdentity"))

    def _ended(self, component: str, name: str, task: asyncio.Task[None]) -> None:
        """Who has lost its Lease stays away."""

    async def deposed(self, component: str) -> None:
        """Wait for the other to lead; the first has ended by then."""
        await self.until(lambda: self.holder(component) == f"other {component}", "the other leads")
        old = self.running.pop(component)
        await asyncio.wait([old.task])
        error = old.task.exception()
        assert isinstance(error, BaseExceptionGroup)
        assert error.split(LeaseLost)[1] is None

    async def late_writes(self, component: str) -> list[str]:
        """What the old leader had sent arrives; the resources it changed, but for Events."""
        await asyncio.sleep(_LATE_SECONDS)
        changed: list[str] = []

        def note(commit: Commit) -> None:
            if commit.actor == component:
                changed.extend(change.entry.key.resource for change in commit.changes)

        self.store.observers.append(note)
        await self.networks[component].deliver()
        self.store.observers.remove(note)
        assert self.holder(component) == f"other {component}"
        return [resource for resource in changed if resource != storage_of(EVENT)]


def play(script: Callable[[TwoOfEach], Awaitable[None]], *, batches: bool = True) -> None:
    world = TwoOfEach(batches=batches)

    async def main() -> None:
        async with world:
            await script(world)
            await asyncio.sleep(300)
            world.judge_at_rest()

    perform(main)
    assert world.problems == []


@pytest.mark.parametrize(("batches", "passing"), [(True, 0), (False, 0), (False, 1), (False, 2)])
def test_a_gang_is_bound_once_and_whole_though_bindings_of_the_old_leader_arrive_late(
    batches: bool, passing: int
) -> None:
    """`passing`: so many of its three bindings got through in time."""

    async def script(world: TwoOfEach) -> None:
        world.networks["scheduler"].begin("/binding", passing=passing)
        await world.client.create(JOB, job("gang", 3, seconds=ENDLESS))
        await world.until(lambda: any("/binding" in write for write in world.networks["scheduler"].sent), "it binds")
        assert [bool(pod["spec"].get("nodeName")) for pod in world.pods()].count(True) == passing
        await world.deposed("scheduler")
        await world.until_phase("Running", "gang")
        nodes = {name_of(pod): pod["spec"]["nodeName"] for pod in world.pods()}
        assert await world.late_writes("scheduler") == []
        assert nodes == {name_of(pod): pod["spec"]["nodeName"] for pod in world.pods()}
        assert len(nodes) == 3

    play(script, batches=batches)


@pytest.mark.parametrize("detained", ["/podgroups/unlucky", "/pods/unlucky", "/jobs/unlucky/status"])
def test_a_restart_is_counted_once_though_the_old_leader_was_in_the_middle_of_it(detained: str) -> None:
    async def script(world: TwoOfEach) -> None:
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        await world.client.create(JOB, job("unlucky", 3, seconds=ENDLESS, maxRetry=5, policies=policies))
        await world.until_phase("Running", "unlucky")
        network = world.networks["controllers"]
        network.begin(detained)
        await fail(world, world.pods()[0])
        await world.deposed("controllers")
        await world.until(lambda: retries(world) == 1 and world.phase("unlucky") == "Running", "it runs again")
        pods = {uid_of(pod) for pod in world.pods()}
        assert any(detained in write for write in network.sent)
        assert await world.late_writes("controllers") == []
        await asyncio.sleep(60)
        assert (retries(world), {uid_of(pod) for pod in world.pods()}) == (1, pods)

    play(script)


def test_pods_that_the_old_leader_made_late_for_a_job_that_is_gone_do_not_stay() -> None:
    """To make something has no precondition but that its name is free: what comes of it is taken away again."""

    async def script(world: TwoOfEach) -> None:
        world.networks["controllers"].begin("/pods")
        await world.client.create(JOB, job("short", 3, seconds=1))
        await world.deposed("controllers")
        await world.until_phase("Completed", "short")
        await world.client.delete(JOB, "short", "default")
        await world.until(lambda: not world.pods(), "its pods are gone")
        assert await world.late_writes("controllers") == [storage_of(POD)] * 3
        await asyncio.sleep(120)
        assert world.pods() == []

    play(script, batches=False)


def retries(world: TwoOfEach) -> int:
    return int((world.job("unlucky").get("status") or {}).get("retryCount") or 0)


async def fail(world: TwoOfEach, pod: Obj) -> None:
    status = {"phase": "Failed", "containerStatuses": [make.container_status("Failed", exit_code=137)]}
    await world.client.patch(POD, name_of(pod), {"status": status}, "default", subresource="status")
