"""Of several who could act, one does at a time: measured in virtual time, on a real API server in memory."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import pytest

from hekla.api.kinds import CONFIG_MAP, LEASE, NAMESPACE, Obj
from hekla.client.joining import JoiningTransport
from hekla.client.lease import Election, LeaseLost, LeaseSettings
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.errors import Disconnected, UsageError
from tests.apiserver.rig import Rig, config_map, with_server
from tests.client.test_transport import Server, serving
from tests.transports import Disturbed, nothing

SETTINGS = LeaseSettings("volcano", "default")


class Candidate:
    """Somebody who would act, and when it did."""

    def __init__(self, rig: Rig, name: str, settings: LeaseSettings = SETTINGS) -> None:
        self.line = Disturbed(rig.client.transport)
        self.client = Client(self.line)
        self.stood_by = 0
        self.acting = asyncio.Event()
        self.since = self.until = float("inf")
        self.clock = rig.clock
        self.election = Election(
            self.client, settings, identity=name, clock=rig.clock, rng=random.Random(name), standing_by=self._stand_by
        )
        self.task = asyncio.create_task(self._run())

    def _stand_by(self) -> None:
        self.stood_by += 1

    async def _run(self) -> None:
        async with self.election.won():
            self.since = self.clock.monotonic()
            self.acting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.until = self.clock.monotonic()

    async def ended(self) -> BaseException | None:
        await asyncio.wait([self.task])
        return None if self.task.cancelled() else self.task.exception()

    async def stop(self) -> None:
        self.task.cancel()
        await self.ended()


@contextlib.asynccontextmanager
async def two(rig: Rig, settings: LeaseSettings = SETTINGS) -> AsyncIterator[tuple[Candidate, Candidate]]:
    """One who leads and one who stands by."""
    first = Candidate(rig, "first", settings)
    await first.acting.wait()
    second = Candidate(rig, "second", settings)
    try:
        yield first, second
    finally:
        for each in (first, second):
            each.line.cut.clear()
            await each.stop()


async def spec(rig: Rig) -> Obj:
    found: Obj = (await rig.client.get(LEASE, "volcano", "default"))["spec"]
    return found


def test_one_leads_for_as_long_as_it_renews_and_the_other_stands_by() -> None:
    async def scenario(rig: Rig) -> None:
        async with two(rig) as (first, second):
            await asyncio.sleep(600)
            assert (first.election.leads, second.election.leads) == (True, False)
            assert (first.stood_by, second.stood_by) == (0, 1)
            said = await spec(rig)
            assert (said["holderIdentity"], said["leaseDurationSeconds"], said["leaseTransitions"]) == ("first", 15, 0)
            assert said["acquireTime"] < said["renewTime"]

    with_server(scenario)


def test_one_who_stops_gives_it_back_and_the_next_need_not_wait() -> None:
    async def scenario(rig: Rig) -> None:
        async with two(rig) as (first, second):
            await asyncio.sleep(60)
            await first.stop()
            assert "holderIdentity" not in await spec(rig)
            await second.acting.wait()
            assert first.until <= second.since <= first.until + 2 * 2.2
            assert ((await spec(rig))["holderIdentity"], (await spec(rig))["leaseTransitions"]) == ("second", 1)

    with_server(scenario)


@pytest.mark.parametrize("after", [0.0, 0.5, 1.9, 2.0, 7.3])
def test_one_who_is_cut_off_stops_before_another_starts(after: float) -> None:
    async def scenario(rig: Rig) -> None:
        async with two(rig) as (first, second):
            await asyncio.sleep(30 + after)
            renewed = rig.clock.monotonic() - 2.0  # at the earliest
            first.line.cut.set()
            error = await first.ended()
            assert isinstance(error, BaseExceptionGroup)
            assert error.split(LeaseLost)[1] is None
            assert renewed <= first.until - 10.0 <= rig.clock.monotonic()
            await second.acting.wait()
            assert first.until + 4.9 <= second.since <= first.until + 5.0 + 2.0 + 4.4

    with_server(scenario)


def test_a_renewal_counts_from_when_it_began_not_from_when_it_was_answered() -> None:
    async def scenario(rig: Rig) -> None:
        async with two(rig) as (first, second):
            began: list[float] = []

            async def note(request: str) -> None:
                began.append(rig.clock.monotonic())

            async def be_late(request: str) -> None:
                await asyncio.sleep(2 if request.startswith("PUT") else 0)

            first.line.before, first.line.after = note, be_late
            await asyncio.sleep(61)
            assert first.election.leads
            first.line.cut.set()
            await first.ended()
            answered = [moment for moment in began if moment < first.until - 9.9]
            assert first.until == pytest.approx(answered[-1] + 10.0)
            await second.acting.wait()
            assert second.since > first.until

    with_server(scenario)


def test_an_answer_that_was_lost_does_not_depose_anybody() -> None:
    async def scenario(rig: Rig) -> None:
        async with two(rig) as (first, second):
            lost: list[str] = []

            async def lose(request: str) -> None:
                if request.startswith("PUT") and len(lost) % 3 < 2:
                    lost.append(request)
                    raise Disconnected("the answer was lost")
                lost.append("")

            first.line.after = lose
            await asyncio.sleep(120)
            assert len(lost) > 20
            assert (first.election.leads, second.acting.is_set()) == (True, False)

    with_server(scenario)


def test_of_two_who_find_it_free_one_gets_it() -> None:
    async def scenario(rig: Rig) -> None:
        both = asyncio.Barrier(2)

        async def together(request: str) -> None:
            if request.startswith("GET") and not (first.acting.is_set() or second.acting.is_set()):
                await both.wait()

        first, second = (Candidate(rig, name) for name in ("first", "second"))
        first.line.after = second.line.after = together
        await asyncio.wait([asyncio.create_task(each.acting.wait()) for each in (first, second)], timeout=30)
        assert [each.election.leads for each in (first, second)].count(True) == 1
        for each in (first, second):
            each.line.after = nothing
            await each.stop()

    with_server(scenario)


def test_one_who_finds_another_in_its_place_stops_at_once() -> None:
    async def scenario(rig: Rig) -> None:
        async with two(rig) as (first, second):
            await asyncio.sleep(30)
            usurped = await rig.client.get(LEASE, "volcano", "default")
            await rig.client.update(LEASE, {**usurped, "spec": {**usurped["spec"], "holderIdentity": "usurper"}})
            await first.ended()
            assert rig.clock.monotonic() <= 30 + 2.1
            assert (await spec(rig))["holderIdentity"] == "usurper"
            await second.acting.wait()
            assert second.since >= 30 + 15

    with_server(scenario)


def test_nothing_is_written_through_a_fence_once_the_time_is_over_even_by_one_who_has_not_heard() -> None:
    """A process that was stopped and goes on runs whatever was ready before its own timers."""

    async def scenario(rig: Rig) -> None:
        stopped = StoppableClock()
        election = Election(rig.client, SETTINGS, identity="one", clock=stopped, rng=random.Random(1))
        fenced = election.fenced(rig.client)
        with pytest.raises(Disconnected, match="not sent"):
            await fenced.create(CONFIG_MAP, config_map("early"))
        async with election.won():
            await fenced.create(CONFIG_MAP, config_map("a"))
            stopped.ahead = 30.0
            with pytest.raises(Disconnected, match="not sent"):
                await fenced.create(CONFIG_MAP, config_map("b"))
            assert await fenced.find(CONFIG_MAP, "b", "default") is None
            stopped.ahead = 0.0

    with_server(scenario)


def test_one_who_stood_still_for_too_long_does_not_go_on_though_nobody_took_its_place() -> None:
    """Somebody may have had the Lease, and given it back."""

    async def scenario(rig: Rig) -> None:
        stopped = StoppableClock()
        election = Election(rig.client, SETTINGS, identity="one", clock=stopped, rng=random.Random(1))

        async def stand_still() -> None:
            async with election.won():
                await asyncio.sleep(1)
                stopped.ahead = 10.0
                await asyncio.sleep(60)

        with pytest.raises(BaseExceptionGroup) as raised:
            await stand_still()
        assert raised.group_contains(LeaseLost)
        assert rig.clock.monotonic() < 3.0

    with_server(scenario)


def test_what_still_waits_for_its_turn_when_the_time_is_over_is_not_sent() -> None:
    """Answers that came while a process was stopped let the next ones go before it hears of anything else."""

    async def scenario(server: Server, rig: Rig) -> None:
        stopped = StoppableClock()
        election = Election(rig.client, SETTINGS, identity="one", clock=stopped, rng=random.Random(1))
        line = server.transport(connections=1)
        fenced = election.fenced(Client(line))
        async with election.won():
            server.held = asyncio.Event()
            early, late = (asyncio.create_task(fenced.create(CONFIG_MAP, config_map(name))) for name in ("a", "b"))
            while not server.requests:
                await asyncio.sleep(0)
            stopped.ahead = 30.0
            server.held.set()
            assert await early == {}
            with pytest.raises(Disconnected, match="not sent"):
                await late
            assert await fenced.get(CONFIG_MAP, "a", "default") == {}, "reading goes on"
            stopped.ahead = 0.0
        await line.close()

    async def main() -> None:
        rig = Rig()
        await rig.app.start()
        async with asyncio.timeout(60), serving(Server([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"])) as server:
            await scenario(server, rig)
            assert [request[:4] for request in server.requests] == [b"POST", b"GET "]

    asyncio.run(main())


def test_what_was_about_to_go_in_company_when_the_time_is_over_is_not_sent() -> None:
    async def scenario(rig: Rig) -> None:
        stopped = StoppableClock()
        line = Disturbed(rig.transport)
        election = Election(rig.client, SETTINGS, identity="one", clock=stopped, rng=random.Random(1))
        fenced = election.fenced(Client(JoiningTransport(line)))

        async def stand_still(request: str) -> None:
            stopped.ahead = 30.0

        async with election.won():
            line.before = stand_still  # with the question whether the server takes many
            made = await asyncio.gather(
                *(fenced.create(CONFIG_MAP, config_map(name)) for name in ("a", "b")), return_exceptions=True
            )
            assert [type(each) for each in made] == [Disconnected, Disconnected]
            assert not {"a", "b"} & {each["metadata"]["name"] for each in await rig.client.find_all(CONFIG_MAP)}
            stopped.ahead = 0.0

    with_server(scenario)


class StoppableClock(LoopClock):
    """`ahead`: the time that has passed while the process, and its event loop's timers, stood still."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def test_who_cannot_reach_the_lease_says_so_once_and_goes_on_trying(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        waiting = Candidate(rig, "waiting", LeaseSettings("volcano", "nowhere"))
        await asyncio.sleep(60)
        assert (waiting.acting.is_set(), waiting.stood_by) == (False, 0)
        await rig.client.create(NAMESPACE, {"metadata": {"name": "nowhere"}})
        await waiting.acting.wait()
        await waiting.stop()

    with_server(scenario)
    told = [record.message for record in caplog.records if "lease not reached" in record.message]
    assert len(told) == 1
    assert "there is no namespace nowhere: `hekla install` makes it" in told[0]


@pytest.mark.parametrize("seconds", [(10, 10, 2), (15, 10, 9), (15, 2, 2), (15, 10, 0)])
def test_times_that_cannot_keep_the_promise_are_refused(seconds: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="must last longer"):
        LeaseSettings("volcano", "default", *seconds)
