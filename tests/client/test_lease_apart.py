"""A leader whose work holds up its event loop for longer than its Lease lasts."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import pytest

from hekla.api.kinds import CONFIG_MAP
from hekla.client.lease import Election, LeaseLost, LeaseSettings
from hekla.client.rest import Client
from hekla.client.transport import Answer, StreamedAnswer
from hekla.errors import Disconnected
from tests.apiserver.rig import config_map
from tests.eventually import eventually

SETTINGS = LeaseSettings("volcano", "default", retry_period=0.005)
SECONDS_BETWEEN_RENEWALS = 3.0


class LeaseServer:
    """A server that knows one Lease; three seconds pass with every renewal, up to a time at which it stands still."""

    def __init__(self, *, until: float = math.inf) -> None:
        self._until = until
        self.lease: dict[str, Any] | None = None
        self.renewals = 0
        self.seconds = 0.0

    def connect(self) -> Client:
        return Client(Line(self))

    def put(self, lease: dict[str, Any]) -> None:
        self.lease = lease
        self.renewals += 1
        self.seconds = min(self.seconds + SECONDS_BETWEEN_RENEWALS, self._until)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


class Line:
    def __init__(self, server: LeaseServer) -> None:
        self._server = server

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        server = self._server
        if method == "GET" and server.lease is None:
            return Answer(404, {}, json.dumps({"kind": "Status", "code": 404, "reason": "NotFound"}).encode())
        if method != "GET":
            server.put(json.loads(body))
        return Answer(200, {}, json.dumps(server.lease).encode())

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def lead(server: LeaseServer, work: Callable[[Election], Awaitable[None]]) -> Election:
    """Have `work` done by one who leads."""
    election = Election(
        server.connect(),
        SETTINGS,
        identity="one",
        clock=server,
        rng=random.Random(1),
        connect=server.connect,
    )

    async def main() -> None:
        async with election.won():
            await work(election)

    asyncio.run(main())
    return election


def test_work_that_takes_longer_than_the_lease_lasts_does_not_lose_it() -> None:
    server = LeaseServer(until=30.0)

    async def work(election: Election) -> None:
        eventually(lambda: server.seconds > SETTINGS.duration, what="it is renewed meanwhile")
        assert election.leads

    election = lead(server, work)
    assert not election.leads, "it was given back"
    assert server.lease is not None
    assert "holderIdentity" not in server.lease["spec"]


def test_who_leads_gives_up_when_its_work_never_ends_and_writes_nothing_more() -> None:
    server = LeaseServer()

    async def work(election: Election) -> None:
        eventually(lambda: not election.leads, what="it is given up")
        renewals = server.renewals
        with pytest.raises(Disconnected, match="not sent"):
            await election.fenced(server.connect()).create(CONFIG_MAP, config_map("late"))
        assert server.renewals == renewals
        await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as raised:
        lead(server, work)
    assert raised.group_contains(LeaseLost, match="its work has not moved for 60s")
    assert server.seconds >= SETTINGS.standstill


def test_one_who_finds_another_in_its_place_stops_whatever_its_work_does() -> None:
    server = LeaseServer()

    async def work(election: Election) -> None:
        def usurp() -> bool:
            # A renewal under way may still take it back: this server does not compare versions.
            assert server.lease is not None
            server.lease = {**server.lease, "spec": {**server.lease["spec"], "holderIdentity": "usurper"}}
            return not election.leads

        eventually(usurp, what="it has noticed")
        await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as raised:
        lead(server, work)
    assert raised.group_contains(LeaseLost, match="held by usurper")
