"""A leader whose work holds up its event loop for longer than its Lease lasts."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from hekla.api.kinds import CONFIG_MAP, LEASE, Obj
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.lease import Election, LeaseLost, LeaseSettings
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, Transport
from hekla.errors import Disconnected
from tests.apiserver.rig import config_map
from tests.eventually import eventually
from tests.transports import Relay

SETTINGS = LeaseSettings("volcano", "default", retry_period=0.005)
SECONDS_BETWEEN_RENEWALS = 3.0


class Place:
    """A server, and a clock: three seconds pass with everything written, up to a time at which it stands still.

    Threads take turns with it: who works waits, or has nothing to ask, while the Lease is renewed.
    """

    def __init__(self, *, until: float = math.inf) -> None:
        self._until = until
        self._app = build_app(MemoryStore(self), clock=self, rng=random.Random(1))
        self.renewals = 0
        self.seconds = 0.0
        self.usurper = ""

    async def open(self) -> None:
        await self._app.start()

    def connect(self) -> Client:
        return Client(Renewing(InProcessTransport(self._app), self))

    def lease(self) -> Obj:
        return asyncio.run(self.connect().get(LEASE, SETTINGS.name, SETTINGS.namespace))

    def pass_time(self) -> None:
        self.renewals += 1
        self.seconds = min(self.seconds + SECONDS_BETWEEN_RENEWALS, self._until)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


class Renewing(Relay):
    """A usurper, once there is one, has the Lease before it is looked at."""

    def __init__(self, inner: Transport, place: Place) -> None:
        super().__init__(inner)
        self._place = place

    async def send(self, request: Request) -> Answer:
        if self._place.usurper:
            taken = {"spec": {"holderIdentity": self._place.usurper}}
            await Client(self._inner).patch(LEASE, SETTINGS.name, taken, SETTINGS.namespace)
        answer = await super().send(request)
        if request.writes:
            self._place.pass_time()
        return answer


def lead(place: Place, work: Callable[[Election], Awaitable[None]]) -> Election:
    """Have `work` done by one who leads."""
    election = Election(
        place.connect(),
        SETTINGS,
        identity="one",
        clock=place,
        rng=random.Random(1),
        connect=place.connect,
    )

    async def main() -> None:
        await place.open()
        async with election.won():
            await work(election)

    asyncio.run(main())
    return election


def test_work_that_takes_longer_than_the_lease_lasts_does_not_lose_it() -> None:
    place = Place(until=30.0)

    async def work(election: Election) -> None:
        eventually(lambda: place.seconds > SETTINGS.duration, what="it is renewed meanwhile")
        assert election.leads

    election = lead(place, work)
    assert not election.leads, "it was given back"
    assert "holderIdentity" not in place.lease()["spec"]


def test_who_leads_gives_up_when_its_work_never_ends_and_writes_nothing_more() -> None:
    place = Place()

    async def work(election: Election) -> None:
        eventually(lambda: not election.leads, what="it is given up")
        renewals = place.renewals
        with pytest.raises(Disconnected, match="not sent"):
            await election.fenced(place.connect()).create(CONFIG_MAP, config_map("late"))
        assert place.renewals == renewals
        await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as raised:
        lead(place, work)
    assert raised.group_contains(LeaseLost, match="its work has not moved for 60s")
    assert place.seconds >= SETTINGS.standstill


def test_one_who_finds_another_in_its_place_stops_whatever_its_work_does() -> None:
    place = Place()

    async def work(election: Election) -> None:
        place.usurper = "usurper"
        eventually(lambda: not election.leads, what="it has noticed")
        await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as raised:
        lead(place, work)
    assert raised.group_contains(LeaseLost, match="held by usurper")
