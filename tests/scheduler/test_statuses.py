"""What is written of a plan, when, and in which order; and what is remembered of what is to be written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import NamedTuple

from hekla.api.kinds import EVENT, POD, POD_GROUP
from hekla.api.meta import name_of, revision_of
from hekla.client.recorder import Recorder
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.statuses import Statuses
from hekla.scheduler.trial.objects import queue_object
from tests.apiserver.rig import Rig, with_server
from tests.scheduler.test_cache import made, small_cache
from tests.scheduler.test_scheduler import Stage, on_stage


def test_a_queue_that_is_gone_is_forgotten() -> None:
    async def scenario(rig: Rig) -> None:
        cache = small_cache(pods=0)
        queue = made(queue_object({"name": "other"}), "o")
        recorder = Recorder(rig.client, "volcano", clock=rig.clock, rng=random.Random(1))
        statuses = Statuses(rig.client, cache, recorder, clock=rig.clock, period=1.0, in_flight=1, wake=bool)
        cache.put_queue(queue)
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        assert set(statuses._held) == {"default", "other"}
        cache.remove_queue(queue)
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        assert set(statuses._held) == {"default"}

    with_server(scenario)


class Told(NamedTuple):
    pods: int  # that say they are not scheduled
    events: list[str]  # reasons of what is told of the group


def told_while(arrivals: Iterable[float], until: float) -> Told:
    """What is told by then of a gang that wants a hundred pods, of which one comes at each of these moments."""
    told: list[Told] = []

    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1"}]})
        stage.start()
        await asyncio.sleep(5.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await stage.add({"groups": [{"name": "a", "min": 100}]})
        for number, moment in enumerate(each for each in arrivals if each < until):
            await asyncio.sleep(began + moment - loop.time())
            await stage.add_pod({"name": f"a-t-{number}", "cpu": 1}, "a")
        await asyncio.sleep(began + until - loop.time())
        pods = [pod for pod in (await stage.client.list(POD)).items if (pod.get("status") or {}).get("conditions")]
        events = [event for event in (await stage.client.list(EVENT)).items if is_about_group(event)]
        told.append(Told(len(pods), [event["reason"] for event in events]))
        await stage.stop()

    on_stage(script)
    return told[0]


def is_about_group(event: dict[str, dict[str, str]]) -> bool:
    return event["involvedObject"]["kind"] == POD_GROUP.kind


def test_nobody_complains_of_a_gang_while_its_pods_are_coming() -> None:
    assert told_while([0.8 * number for number in range(10)], until=8.1) == (0, [])


def test_a_gang_that_has_stopped_growing_is_complained_about() -> None:
    assert told_while([0.8 * number for number in range(10)], until=10.0) == (10, ["Unschedulable"])


def test_a_gang_that_grows_for_ever_is_complained_about_in_the_end() -> None:
    assert not told_while([0.8 * number for number in range(60)], until=29.5).pods
    assert told_while([0.8 * number for number in range(60)], until=30.5).pods


def test_that_a_gang_may_enter_is_written_before_what_others_have_come_to() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1"}]})
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"groups": [{"name": f"r{number}", "min": 1, "pods": [runs]} for number in range(3)]})
        await stage.add({"groups": [{"name": "new", "min": 1}]})
        stage.start(SchedulerSettings(in_flight=1))
        await asyncio.sleep(5.0)
        written = sorted((await stage.client.list(POD_GROUP)).items, key=revision_of)
        phases = [(name_of(group), group["status"]["phase"]) for group in written]
        assert phases[0] == ("new", "Inqueue")
        assert sorted(phases[1:]) == [("r0", "Running"), ("r1", "Running"), ("r2", "Running")]

    on_stage(script)
