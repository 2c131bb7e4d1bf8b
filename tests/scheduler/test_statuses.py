"""What is written of a plan, when, and in which order; and what is remembered of what is to be written.

What a gang has lost is in `test_losses.py`, each rule about the time in `test_when.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pytest

from hekla.api.kinds import EVENT, NODE, POD, POD_GROUP
from hekla.api.meta import annotations_of, name_of, revision_of
from hekla.api.reasons import REASON_ANNOTATION
from hekla.client.recorder import Recorder
from hekla.client.transport import Answer, Request
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.rows import Condition
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.statuses import Statuses, _PodWish
from hekla.scheduler.trial.objects import queue_object
from tests.apiserver.rig import Rig, with_server
from tests.scheduler.test_cache import made, pod, small_cache
from tests.scheduler.test_scheduler import Stage, on_stage
from tests.transports import Counting, Relay


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


def test_a_node_that_others_left_for_a_pod_is_told_though_a_later_cycle_only_repeats_what_the_pod_says() -> None:
    async def scenario(rig: Rig) -> None:
        waiting = Condition("Unschedulable", "can possibly be assigned to n1")
        said = {"type": "PodScheduled", "status": "False", "reason": waiting.reason, "message": waiting.message}
        cache = small_cache(pods=0)
        cache.put_pod({**pod(0), "status": {"phase": "Pending", "conditions": [said]}})
        recorder = Recorder(rig.client, "volcano", clock=rig.clock, rng=random.Random(1))
        statuses = Statuses(rig.client, cache, recorder, clock=rig.clock, period=1.0, in_flight=1, wake=bool)
        plan = run_cycle(cache.snapshot(), default_config())
        for condition in (replace(waiting, nominated="n1"), waiting):
            (outcome,) = plan.groups
            about = ((outcome.group.pods[0], condition),)
            told = msgspec.structs.replace(outcome, filling=False, pod_conditions=about)
            statuses.take(replace(plan, groups=(told,)))
        wish = statuses._wishes["pod", "p0"]
        assert isinstance(wish, _PodWish)
        assert wish.condition.nominated == "n1"

    with_server(scenario)


def test_what_need_not_be_written_any_more_does_not_count_as_said() -> None:
    async def scenario(rig: Rig) -> None:
        cache = small_cache(pods=1, minimum=1)
        (outcome,) = (plan := run_cycle(cache.snapshot(), default_config())).groups
        waiting = Condition("Unschedulable", "no room")
        told = msgspec.structs.replace(outcome, pod_conditions=((outcome.group.pods[0], waiting),))
        recorder = Recorder(rig.client, "volcano", clock=rig.clock, rng=random.Random(1))
        statuses = Statuses(rig.client, cache, recorder, clock=rig.clock, period=1.0, in_flight=1, wake=bool)
        statuses.take(replace(plan, groups=(told,)))
        said = {"type": "PodScheduled", "status": "False", "reason": waiting.reason, "message": waiting.message}
        cache.put_pod({**pod(0, revision=2), "status": {"phase": "Pending", "conditions": [said]}})
        writing = asyncio.create_task(statuses.run())
        await asyncio.sleep(2.0)
        assert ("pod", "p0") not in statuses._wishes
        assert ("pod", "p0") not in statuses._said
        writing.cancel()

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


async def end_pod(stage: Stage, name: str, phase: str) -> None:
    await stage.client.patch(POD, name, {"status": {"phase": phase}}, "default", subresource="status")


def is_about_group(event: dict[str, dict[str, str]]) -> bool:
    return event["involvedObject"]["kind"] == POD_GROUP.kind


def test_nobody_complains_of_a_gang_while_its_pods_are_coming() -> None:
    assert told_while([0.8 * number for number in range(10)], until=8.1) == (0, [])


def test_a_gang_that_has_stopped_growing_is_complained_about() -> None:
    assert told_while([0.8 * number for number in range(10)], until=10.0) == (10, ["Unschedulable"])


def test_a_gang_that_grows_for_ever_is_complained_about_in_the_end() -> None:
    assert not told_while([0.8 * number for number in range(60)], until=29.5).pods
    assert told_while([0.8 * number for number in range(60)], until=30.5).pods


@pytest.mark.parametrize(
    ("leave_after", "until", "told"), [(4.0, 4.8, 0), (4.0, 5.5, 1), (60.0, 29.5, 0), (60.0, 32.0, 1)]
)
def test_a_gang_that_waits_for_pods_of_the_run_before_to_leave_is_not_complained_about(
    leave_after: float, until: float, told: int
) -> None:
    """The one that waits says so a second after the last of them has left."""

    async def script(stage: Stage) -> None:
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "min": 3, "pods": [runs, runs, {}]}]})
        old = ("a-t-0", "a-t-1")
        for name in old:
            await stage.client.delete(POD, name, "default")
        stage.start()
        await asyncio.sleep(min(leave_after, until))
        for name in old if leave_after < until else ():
            await stage.client.delete(POD, name, "default", grace_seconds=0)
        await asyncio.sleep(max(0.0, until - leave_after))
        complaints = [event["message"] for event in (await stage.client.list(EVENT)).items]
        complaints = [message for message in complaints if message.startswith("pod group is not ready")]
        assert len(complaints) == told
        await stage.stop()

    on_stage(script)


def test_a_gang_that_has_stopped_growing_again_says_so_however_busy_the_cluster_is() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "min": 4}, {"name": "others", "min": 1}]})
        stage.start()
        await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")
        await asyncio.sleep(5.0)
        assert "1 Pending, 4 minAvailable" in await stage.condition("a")
        await stage.add_pod({"name": "a-t-1", "cpu": 1}, "a")
        for number in range(15):
            # Each of them has every gang that waits looked at again.
            await stage.add_pod({"name": f"others-t-{number}", "cpu": 0.1}, "others")
            await asyncio.sleep(0.3)
        assert "2 Pending, 4 minAvailable" in await stage.condition("a")
        await stage.stop()

    on_stage(script)


def times_told(seconds: int) -> int:
    """How often a pod tells within so many seconds why it waits, if others come and go each second."""
    told: list[int] = []

    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": f"n{number}", "cpu": 10} for number in range(3)]})
        stage.start()
        await stage.add({"groups": [{"name": "waits", "min": 10, "pods": [{"cpu": 4}] * 10}]})
        for number in range(seconds):
            await stage.add({"groups": [{"name": f"s{number}", "min": 1, "pods": [{"cpu": 1 + number % 3}]}]})
            await asyncio.sleep(1.0)
            if number >= 3:
                await stage.client.delete(POD, f"s{number - 3}-t-0", "default", grace_seconds=0)
        events = (await stage.client.list(EVENT)).items
        about = [event for event in events if event["involvedObject"]["name"] == "waits-t-0"]
        told.append(sum(event["count"] for event in about))
        await stage.stop()

    on_stage(script)
    return told[0]


def test_the_more_often_the_figures_have_changed_the_longer_they_stand() -> None:
    assert times_told(8) >= 3
    assert times_told(120) <= 10


def test_a_new_reason_is_told_soon_however_often_the_figures_have_changed() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": f"n{number}", "cpu": 10} for number in range(3)]})
        stage.start()
        await stage.add({"groups": [{"name": "waits", "min": 10, "pods": [{"cpu": 4}] * 10}]})
        for number in range(23):
            if number < 20:
                cpu = (1, 3, 7, 9, 5)[number % 5]
                await stage.add({"groups": [{"name": f"s{number}", "min": 1, "pods": [{"cpu": cpu}]}]})
                await asyncio.sleep(1.0)
            if number >= 3:
                await stage.client.delete(POD, f"s{number - 3}-t-0", "default", grace_seconds=0)
        assert annotations_of(await stage.group("waits"))[REASON_ANNOTATION] == "NotEnoughResources"
        for number in range(3):
            await stage.client.patch(NODE, f"n{number}", {"spec": {"unschedulable": True}})
        await asyncio.sleep(2.5)
        assert annotations_of(await stage.group("waits"))[REASON_ANNOTATION] == "NoNodeMatches"
        await stage.stop()

    on_stage(script)


def test_how_many_pods_of_a_gang_have_failed_is_told_soon_however_often_it_has_been() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1", "cpu": 100}]})
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"groups": [{"name": "a", "min": 40, "pods": [runs] * 40}]})
        stage.start()
        await asyncio.sleep(5.0)
        for number in range(30):
            await end_pod(stage, f"a-t-{number}", "Failed")
            await asyncio.sleep(1.0)
        await asyncio.sleep(1.5)
        status = (await stage.group("a"))["status"]
        assert (status["phase"], status["failed"], status["running"]) == ("Unknown", 30, 10)
        await stage.stop()

    on_stage(script)


def test_how_long_words_stand_does_not_follow_from_how_often_pods_were_counted() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1", "cpu": 100}]})
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"groups": [{"name": "a", "min": 20, "pods": [runs] * 20}]})
        stage.start()
        for number in range(15):
            await asyncio.sleep(1.0)
            await end_pod(stage, f"a-t-{number}", "Succeeded")
        await stage.client.delete(POD, "a-t-19", "default", grace_seconds=0)
        for number in (1, 2):
            await stage.add_pod({"name": f"a-t-{19 + number}", "cpu": 1, "selector": {"no": "where"}}, "a")
            await asyncio.sleep(5.0)
            assert f"{number} Pending, " in await stage.condition("a")
        await stage.stop()

    on_stage(script)


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


class OfGroups(Counting):
    """Notes how many writes of PodGroups are under way at a time; each takes a while."""

    async def send(self, request: Request) -> Answer:
        if not (request.writes and POD_GROUP.plural in request.path):
            return await Relay.send(self, request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.1)
        self.in_flight -= 1
        return await Relay.send(self, request)


@pytest.mark.parametrize(("batches", "most"), [(True, 16), (False, 4)])
def test_what_has_only_to_be_told_is_written_by_few_requests_at_a_time(batches: bool, most: int) -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1"}]})
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"groups": [{"name": f"r{number}", "min": 1, "pods": [runs]} for number in range(40)]})
        line = OfGroups(stage.connection(), batches=batches)
        stage.start_on(line)
        await asyncio.sleep(10.0)
        groups = (await stage.client.list(POD_GROUP)).items
        assert {group["status"]["phase"] for group in groups} == {"Running"}
        assert line.most_in_flight == most

    on_stage(script)
