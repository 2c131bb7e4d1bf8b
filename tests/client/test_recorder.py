"""Events are written together, counted instead of repeated, and never in anybody's way."""

from __future__ import annotations

import asyncio
import random

import pytest

from hekla.api.kinds import EVENT, Obj
from hekla.api.meta import revision_of
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, Transport
from hekla.clock import LoopClock
from hekla.errors import Disconnected, ServiceUnavailable
from tests.apiserver.rig import Rig, with_server
from tests.transports import Counting, refusal


def about(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}


async def told(rig: Rig) -> dict[str, int]:
    found = (await rig.client.list(EVENT)).items
    return {event["involvedObject"]["name"]: event["count"] for event in found}


def test_what_waits_is_written_in_one_request() -> None:
    async def scenario(rig: Rig) -> None:
        counting = Counting(rig.client.transport, batches=True)
        recorder = Recorder(Client(counting), "test", clock=LoopClock(), rng=random.Random(1))
        for number in range(50):
            recorder.event(about(f"p{number}"), NORMAL, "Started", "it runs")
        await recorder.flush()
        assert await told(rig) == {f"p{number}": 1 for number in range(50)}
        assert sum(request.startswith("POST") for request in counting.sent) == 1

    with_server(scenario)


def test_who_writes_warnings_only_leaves_out_what_goes_as_it_should() -> None:
    async def scenario(rig: Rig) -> None:
        recorder = Recorder(rig.client, "test", clock=LoopClock(), rng=random.Random(1), only_warnings=True)
        recorder.event(about("fine"), NORMAL, "Started", "it runs")
        recorder.event(about("bad"), WARNING, "Failed", "it does not")
        await recorder.flush()
        assert await told(rig) == {"bad": 1}

    with_server(scenario)


def test_events_leave_room_for_what_they_tell_of_where_each_is_a_request() -> None:
    async def scenario(rig: Rig) -> None:
        counting = Counting(rig.client.transport, batches=False)
        recorder = Recorder(Client(counting), "test", clock=LoopClock(), rng=random.Random(1))
        for number in range(50):
            recorder.event(about(f"p{number}"), NORMAL, "Started", "it runs")
        await recorder.flush()
        assert len(await told(rig)) == 50
        assert counting.most_in_flight <= 4

    with_server(scenario)


def test_what_is_said_of_one_object_is_written_in_the_order_in_which_it_was_said() -> None:
    """Their times have whole seconds: people see the order in which they were made."""

    async def scenario(rig: Rig) -> None:
        recorder = Recorder(Client(Unsteady(rig.client.transport)), "test", clock=LoopClock(), rng=random.Random(1))
        for word in ("first", "second", "third", "fourth"):
            for name in ("p", "q"):
                recorder.event(about(name), NORMAL, "Said", word)
        await recorder.flush()
        events = sorted((await rig.client.list(EVENT)).items, key=revision_of)
        for name in ("p", "q"):
            said = [event["message"] for event in events if event["involvedObject"]["name"] == name]
            assert said == ["first", "second", "third", "fourth"]

    with_server(scenario)


def test_who_lists_events_is_shown_them_in_the_order_in_which_they_were_said_by_whomever() -> None:
    """Of one second, `kubectl describe` shows them as they are listed: by name."""

    async def scenario(rig: Rig) -> None:
        clock, said = LoopClock(), []
        one, other = (Recorder(rig.client, name, clock=clock, rng=random.Random(1)) for name in ("one", "other"))
        for turn in range(5):
            for recorder in (other, one):
                for word in ("first", "second"):
                    said.append(f"{turn} {recorder is one} {word}")
                    recorder.event(about("p"), NORMAL, "Said", said[-1])
                await asyncio.sleep(0.001)
        await one.flush()
        await other.flush()
        assert [event["message"] for event in (await rig.client.list(EVENT)).items] == said

    with_server(scenario)


class Unsteady(Counting):
    """Of the requests on their way at the same time, the last one arrives first."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner, batches=False)
        self._later = 1.0

    async def send(self, request: Request) -> Answer:
        self._later /= 2
        await asyncio.sleep(self._later)
        return await super().send(request)


def test_the_same_event_raises_a_count_whether_it_is_written_already_or_not() -> None:
    async def scenario(rig: Rig) -> None:
        recorder = Recorder(rig.client, "test", clock=LoopClock(), rng=random.Random(1))
        for _ in range(3):
            recorder.event(about("p"), NORMAL, "Pulled", "again")
        await recorder.flush()
        assert await told(rig) == {"p": 3}
        for _ in range(2):
            recorder.event(about("p"), NORMAL, "Pulled", "again")
        await recorder.flush()
        assert await told(rig) == {"p": 5}

    with_server(scenario)


def test_what_happened_for_the_sake_of_another_is_an_event_of_its_own() -> None:
    async def scenario(rig: Rig) -> None:
        recorder = Recorder(rig.client, "test", clock=LoopClock(), rng=random.Random(1))
        for cause in ("first", "second", "second"):
            recorder.event(about("p"), NORMAL, "Evict", "preempt", related=about(cause))
            await recorder.flush()
        found = (await rig.client.list(EVENT)).items
        assert {event["related"]["name"]: event["count"] for event in found} == {"first": 1, "second": 2}

    with_server(scenario)


def test_an_event_that_was_removed_meanwhile_is_made_anew() -> None:
    async def scenario(rig: Rig) -> None:
        recorder = Recorder(rig.client, "test", clock=LoopClock(), rng=random.Random(1))
        recorder.event(about("p"), NORMAL, "Pulled", "again")
        await recorder.flush()
        (first,) = (await rig.client.list(EVENT)).items
        await rig.client.delete(EVENT, first["metadata"]["name"], "default")
        recorder.event(about("p"), NORMAL, "Pulled", "again")
        await recorder.flush()
        assert await told(rig) == {"p": 1}

    with_server(scenario)


def test_one_that_is_refused_does_not_stop_the_others() -> None:
    async def scenario(rig: Rig) -> None:
        recorder = Recorder(rig.client, "test", clock=LoopClock(), rng=random.Random(1))
        task = asyncio.create_task(recorder.run())
        lost = about("elsewhere")
        lost["metadata"]["namespace"] = "nowhere"
        recorder.event(lost, NORMAL, "Started", "it runs")
        recorder.event(about("p"), NORMAL, "Started", "it runs")
        await asyncio.sleep(1)
        assert await told(rig) == {"p": 1}
        task.cancel()

    with_server(scenario)


class Outage(Counting):
    """The server is away: requests are lost on their way there, or their answers on the way back."""

    def __init__(self, inner: Transport, lost: str = "", *, batches: bool = True) -> None:
        super().__init__(inner, batches=batches)
        self.lost = lost
        self.back = asyncio.Event()

    async def send(self, request: Request) -> Answer:
        if self.lost == "silent":
            await self.back.wait()
        if self.lost == "refused" or (self.lost == "patches" and request.method == "PATCH"):
            return refusal(ServiceUnavailable("not now"))
        if self.lost == "before":
            raise Disconnected("nobody there")
        answer = await super().send(request)
        if self.lost == "after":
            raise Disconnected("cut off")
        return answer


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("lost", ["before", "after", "refused"])
def test_what_is_said_while_the_server_is_away_is_written_when_it_is_back(lost: str, batches: bool) -> None:
    async def scenario(rig: Rig) -> None:
        outage = Outage(rig.client.transport, batches=batches)
        recorder = Recorder(Client(outage), "test", clock=LoopClock(), rng=random.Random(1))
        task = asyncio.create_task(recorder.run())
        recorder.event(about("before"), NORMAL, "Said", "now")
        await asyncio.sleep(1)
        outage.lost = lost
        for _ in range(3):
            recorder.event(about("before"), NORMAL, "Said", "now")
            for word in ("first", "second"):
                for name in ("p", "q"):
                    recorder.event(about(name), NORMAL, "Said", word)
            await asyncio.sleep(40)
        outage.lost = ""
        await asyncio.sleep(10)
        events = sorted((await rig.client.list(EVENT)).items, key=revision_of)
        counts = {(event["involvedObject"]["name"], event["message"]): event["count"] for event in events}
        assert counts == {("before", "now"): 4, **{(name, word): 3 for name in "pq" for word in ("first", "second")}}
        for name in ("p", "q"):
            said = [event["message"] for event in events if event["involvedObject"]["name"] == name]
            assert said == ["first", "second"]
        task.cancel()

    with_server(scenario)


def test_what_was_said_again_after_a_lost_answer_is_counted_though_the_server_goes_away_once_more() -> None:
    async def scenario(rig: Rig) -> None:
        outage = Outage(rig.client.transport, "after")
        recorder = Recorder(Client(outage), "test", clock=LoopClock(), rng=random.Random(1))
        task = asyncio.create_task(recorder.run())
        recorder.event(about("p"), NORMAL, "Said", "now")
        await asyncio.sleep(0.5)
        outage.lost = "patches"
        recorder.event(about("p"), NORMAL, "Said", "now")
        await asyncio.sleep(20)
        assert await told(rig) == {"p": 1}
        outage.lost = ""
        await asyncio.sleep(20)
        assert await told(rig) == {"p": 2}
        recorder.event(about("p"), NORMAL, "Said", "now")
        await asyncio.sleep(20)
        assert await told(rig) == {"p": 3}
        task.cancel()

    with_server(scenario)


def test_of_what_is_said_while_the_server_is_away_for_long_the_newest_is_kept() -> None:
    async def scenario(rig: Rig) -> None:
        outage = Outage(rig.client.transport, "before")
        recorder = Recorder(Client(outage), "test", clock=LoopClock(), rng=random.Random(1))
        task = asyncio.create_task(recorder.run())
        for number in range(10_300):
            recorder.event(about(f"p{number}"), NORMAL, "Said", "now")
            if number == 5_000:
                await asyncio.sleep(5)
        await asyncio.sleep(5)
        outage.lost = ""
        await asyncio.sleep(30)
        assert set(await told(rig)) == {f"p{number}" for number in range(300, 10_300)}
        task.cancel()

    with_server(scenario)


def test_the_end_does_not_wait_for_a_server_that_is_away() -> None:
    async def scenario(rig: Rig) -> None:
        for lost, most in (("before", 0.1), ("silent", 1.0)):
            outage = Outage(rig.client.transport, lost)
            recorder = Recorder(Client(outage), "test", clock=LoopClock(), rng=random.Random(1))
            recorder.event(about("p"), NORMAL, "Said", "now")
            began = asyncio.get_running_loop().time()
            await recorder.flush()
            assert asyncio.get_running_loop().time() - began <= most

    with_server(scenario)


@pytest.mark.parametrize("lost", ["before", "silent"])
def test_at_the_end_what_waits_for_the_server_is_written_if_it_is_back(lost: str) -> None:
    async def scenario(rig: Rig) -> None:
        outage = Outage(rig.client.transport, lost)
        recorder = Recorder(Client(outage), "test", clock=LoopClock(), rng=random.Random(1))
        task = asyncio.create_task(recorder.run())
        recorder.event(about("p"), NORMAL, "Said", "now")
        await asyncio.sleep(20.5)
        task.cancel()
        await asyncio.wait([task])
        outage.lost = ""
        await recorder.flush()
        assert await told(rig) == {"p": 1}

    with_server(scenario)
