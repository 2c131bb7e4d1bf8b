"""What is told of a gang that ran and lost pods, or ended: as it is after a while, and nothing of what passes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hekla.api.kinds import EVENT, POD, POD_GROUP
from hekla.api.meta import revision_of
from tests.scheduler.test_scheduler import Stage, is_binding, on_stage
from tests.scheduler.test_statuses import end_pod, is_about_group


def after_running(script: Callable[[Stage], Awaitable[None]], *, pods: int = 2) -> None:
    """Play a scene that begins with a gang of so many pods, all of which run."""

    async def scene(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1"}]})
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"groups": [{"name": "a", "min": pods, "pods": [runs] * pods}]})
        stage.start()
        await asyncio.sleep(5.0)
        assert await phase(stage) == "Running"
        await script(stage)
        await stage.stop()

    on_stage(scene)


async def phase(stage: Stage) -> str:
    return str((await stage.group("a"))["status"]["phase"])


async def newest_word(stage: Stage) -> str:
    conditions = (await stage.group("a"))["status"]["conditions"]
    return str(max(conditions, key=lambda condition: condition["lastTransitionTime"])["type"])


async def complaints(stage: Stage) -> list[str]:
    """What is told of a gang that lacks something; of one whose pods are being bound it is said that it is ready."""
    events = (await stage.client.list(EVENT)).items
    warnings = [event["message"] for event in events if is_about_group(event) and event["type"] == "Warning"]
    return [message for message in warnings if "pod group is ready" not in message]


async def never_heard_of_a_loss(stage: Stage) -> bool:
    await asyncio.sleep(5.0)
    conditions = (await stage.group("a"))["status"]["conditions"]
    return [condition["type"] for condition in conditions] == ["Scheduled"] and await complaints(stage) == []


@pytest.mark.parametrize(("ends", "outcome"), [(["Failed"], "Unknown"), (["Succeeded", "Succeeded"], "Completed")])
def test_what_a_gang_has_come_to_is_told_once_it_has_been_so_for_a_while(ends: list[str], outcome: str) -> None:
    async def script(stage: Stage) -> None:
        for number, end in enumerate(ends):
            await end_pod(stage, f"a-t-{number}", end)
        await asyncio.sleep(0.6)
        assert await phase(stage) == "Running"
        await asyncio.sleep(0.3)
        assert await phase(stage) == outcome

    after_running(script)


@pytest.mark.parametrize("lost", [["a-t-0"], ["a-t-0", "a-t-1"]])
def test_of_a_gang_whose_lost_pod_is_made_again_at_once_nobody_hears_that_it_lacked_one(lost: list[str]) -> None:
    async def script(stage: Stage) -> None:
        for name in lost:
            await end_pod(stage, name, "Failed")
            await asyncio.sleep(0.2)
            await stage.client.delete(POD, name, "default")
            await stage.add_pod({"name": name, "cpu": 1}, "a")
            await stage.until_bound(name)
            await end_pod(stage, name, "Running")
            await asyncio.sleep(0.4)
        assert await never_heard_of_a_loss(stage)
        assert await phase(stage) == "Running"

    after_running(script)


def test_the_newest_word_about_a_gang_is_the_one_that_holds() -> None:
    async def script(stage: Stage) -> None:
        for _ in range(2):
            await end_pod(stage, "a-t-0", "Failed")
            await asyncio.sleep(5.0)
            assert await newest_word(stage) == "Unschedulable"
            await stage.client.delete(POD, "a-t-0", "default", grace_seconds=0)
            await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")
            await stage.until_bound("a-t-0")
            await end_pod(stage, "a-t-0", "Running")
            await asyncio.sleep(5.0)
            assert await phase(stage) == "Running"
            assert await newest_word(stage) == "Scheduled"

    after_running(script)


def test_a_gang_that_is_ready_again_is_told_to_be_after_what_was_told_in_between() -> None:
    async def script(stage: Stage) -> None:
        for lost_for in (0.0, 5.0):
            await asyncio.sleep(5.0)
            await end_pod(stage, "a-t-0", "Failed")
            await asyncio.sleep(lost_for)
            await stage.client.delete(POD, "a-t-0", "default", grace_seconds=0)
            await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")
            await stage.until_bound("a-t-0")
            await asyncio.sleep(5.0)
            await end_pod(stage, "a-t-0", "Running")
            await asyncio.sleep(5.0)
            about = [event for event in (await stage.client.list(EVENT)).items if is_about_group(event)]
            last = max(about, key=lambda event: (event["lastTimestamp"], revision_of(event)))
            assert last["message"] == "pod group is ready"
            assert last["count"] == (2 if lost_for == 0.0 else 3)

    after_running(script)


def test_of_a_gang_that_is_gone_nobody_hears_what_it_lacked() -> None:
    async def script(stage: Stage) -> None:
        await end_pod(stage, "a-t-0", "Failed")
        await asyncio.sleep(0.3)
        await stage.client.delete(POD_GROUP, "a", "default")
        await asyncio.sleep(5.0)
        assert await complaints(stage) == []

    after_running(script)


def test_a_second_loss_does_not_put_off_what_is_told_of_the_first() -> None:
    async def script(stage: Stage) -> None:
        await end_pod(stage, "a-t-0", "Failed")
        await asyncio.sleep(0.6)
        await end_pod(stage, "a-t-1", "Failed")
        await asyncio.sleep(0.3)
        assert await phase(stage) == "Completed"

    after_running(script)


def test_a_gang_made_again_after_its_end_is_not_said_to_wait_meanwhile() -> None:
    async def script(stage: Stage) -> None:
        for name in ("a-t-0", "a-t-1"):
            await stage.client.delete(POD, name, "default", grace_seconds=0)
        await asyncio.sleep(0.3)
        assert await phase(stage) == "Running"
        await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")
        await asyncio.sleep(0.1)
        await stage.add_pod({"name": "a-t-1", "cpu": 1}, "a")
        await stage.until_bound("a-t-0", "a-t-1")
        assert await never_heard_of_a_loss(stage)

    after_running(script)


def test_a_pod_that_comes_after_a_loss_says_that_it_waits_when_its_gang_does() -> None:
    async def script(stage: Stage) -> None:
        for number in range(2):
            await stage.client.delete(POD, f"a-t-{number}", "default", grace_seconds=0)
        await asyncio.sleep(0.2)
        await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")
        await asyncio.sleep(0.6)
        assert await phase(stage) == "Unknown"
        (condition,) = (await stage.client.get(POD, "a-t-0", "default"))["status"]["conditions"]
        assert condition["message"].startswith("pod group is not ready, 1 Pending, 1 Running, 3 minAvailable")

    after_running(script, pods=3)


def test_a_gang_whose_pod_is_on_its_way_again_does_not_enter_once_more() -> None:
    async def script(stage: Stage) -> None:
        stage.line.fault = lambda write: "refuse" if is_binding(write) else ""
        await stage.client.delete(POD, "a-t-0", "default", grace_seconds=0)
        await stage.add_pod({"name": "a-t-0", "cpu": 1}, "a")
        await asyncio.sleep(0.5)
        assert await phase(stage) == "Pending"
        # Something else changes, and has the gang looked at again.
        await stage.add({"nodes": [{"name": "n2"}]})
        await asyncio.sleep(0.3)
        assert await phase(stage) == "Pending"
        stage.line.fault = lambda write: ""
        await stage.until_bound("a-t-0")
        await end_pod(stage, "a-t-0", "Running")
        await asyncio.sleep(0.5)
        assert await phase(stage) == "Running"

    after_running(script)


def test_that_a_gang_lacks_a_pod_that_is_leaving_is_told_once_it_has_been_so_for_a_while() -> None:
    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "min": 1}]})
        stage.start()
        await stage.add_pod({"name": "a-t-0", "selector": {"no": "where"}}, "a")
        await stage.client.patch(POD, "a-t-0", {"metadata": {"finalizers": ["test/stays"]}}, "default")
        await asyncio.sleep(5.0)
        assert await stage.condition("a") == "tasks in gang are ready to be scheduled"
        await stage.client.delete(POD, "a-t-0", "default")
        await asyncio.sleep(0.6)
        assert await stage.condition("a") == "tasks in gang are ready to be scheduled"
        await asyncio.sleep(0.3)
        assert (await stage.condition("a")).endswith(
            "1/1 tasks in gang unschedulable: pod group is not ready, 1 Releasing, 1 minAvailable"
        )
        await stage.stop()

    on_stage(script)
