"""What is remembered of what is to be written, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, cast

from hekla.api.kinds import POD, POD_GROUP, Kind, Obj
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.errors import NotFound
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.statuses import Statuses
from hekla.scheduler.trial.objects import group_object, pod_object, queue_object
from tests.integration.virtual_loop import run_virtually
from tests.scheduler.test_binder import Events
from tests.scheduler.test_cache import made, pod, small_cache


def test_a_queue_that_is_gone_is_forgotten() -> None:
    async def main() -> None:
        cache = small_cache(pods=0)
        queue = made(queue_object({"name": "other"}), "o")
        statuses = Statuses(
            cast(Client, None), cache, cast(Recorder, Events()), clock=LoopClock(), period=1.0, in_flight=1, wake=bool
        )
        cache.put_queue(queue)
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        assert set(statuses._held) == {"default", "other"}
        cache.remove_queue(queue)
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        assert set(statuses._held) == {"default"}

    run_virtually(main())


class Notes:
    """A server and a recorder that only note what was written of pods and groups, and what was said."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.phases: list[str] = []
        self.events: list[str] = []

    async def patch(self, kind: Kind, name: str, patch: Obj, *_: Any, **__: Any) -> Obj:
        if kind is POD:
            self.pods.append(name)
        if kind is POD_GROUP:
            self.phases += [patch["status"]["phase"]] if "phase" in patch["status"] else []
        raise NotFound("only noted")

    def event(self, _: Any, __: str, reason: str, ___: str) -> None:
        self.events.append(reason)


def written_while(arrivals: Iterable[float], until: float) -> Notes:
    """What was written by then about a gang that wants a hundred pods, of which one came at each of these moments."""
    notes = Notes()

    async def main() -> None:
        cache = small_cache(pods=0, minimum=100)
        statuses = Statuses(
            cast(Client, notes), cache, cast(Recorder, notes), clock=LoopClock(), period=1.0, in_flight=1, wake=bool
        )

        def come(number: int) -> None:
            cache.put_pod(pod(number))
            statuses.take(run_cycle(cache.snapshot(), default_config()))

        loop = asyncio.get_running_loop()
        for number, moment in enumerate(arrivals):
            loop.call_later(moment, come, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(statuses.run(), until)

    run_virtually(main())
    return notes


def test_nobody_complains_of_a_gang_while_its_pods_are_coming() -> None:
    notes = written_while([0.8 * number for number in range(10)], until=8.1)
    assert (notes.pods, notes.events) == ([], [])


def test_a_gang_that_has_stopped_growing_is_complained_about() -> None:
    notes = written_while([0.8 * number for number in range(10)], until=8.5)
    assert len(notes.pods) == 10
    assert notes.events == ["Unschedulable"]


def test_a_gang_that_grows_for_ever_is_complained_about_in_the_end() -> None:
    assert not written_while([0.8 * number for number in range(60)], until=29.5).pods
    assert written_while([0.8 * number for number in range(60)], until=30.5).pods


def test_that_a_gang_may_enter_is_written_before_what_others_have_come_to() -> None:
    notes = Notes()

    async def main() -> None:
        cache = small_cache(pods=0)
        statuses = Statuses(
            cast(Client, notes), cache, cast(Recorder, notes), clock=LoopClock(), period=1.0, in_flight=1, wake=bool
        )
        for name in ("r1", "r2", "r3"):
            cache.put_group(made(group_object({"name": name, "min": 1, "phase": "Inqueue"}), name))
            runs = pod_object({"name": f"{name}-t-0", "cpu": 1, "node": "n1", "phase": "Running"}, name)
            cache.put_pod(made(runs, f"{name}-0"))
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        cache.put_group(made(group_object({"name": "new", "min": 1, "phase": "Pending"}), "new"))
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(statuses.run(), 1.0)

    run_virtually(main())
    assert notes.phases == ["Inqueue", "Running", "Running", "Running"]
