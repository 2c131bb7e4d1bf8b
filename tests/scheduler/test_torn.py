"""A gang of which a server that binds one by one took only a part."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from hekla.api.kinds import EVENT, POD
from hekla.api.meta import uid_of
from hekla.client.recorder import Recorder
from hekla.clock import LoopClock
from hekla.errors import Conflict
from hekla.scheduler.cache import Cache
from hekla.scheduler.rows import Pod
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.torn import TornGangs
from tests.scheduler.test_scheduler import GANG, MEMBERS, Stage, on_stage

OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
SETTINGS = SchedulerSettings(torn_seconds=20.0)


def on_torn_stage(
    script: Callable[[Stage], Awaitable[None]],
    *refused: str,
    given: dict[str, Any] = GANG,
    owned: bool = True,
) -> None:
    """The server refuses to bind some pods; those `owned` belong to a controller that would make them again."""

    async def scene(stage: Stage) -> None:
        await stage.add(given)
        if owned:
            await own_pods(stage)
        stage.start(SETTINGS, batches=False).fault = refusing(*refused)
        await script(stage)
        await stage.stop()

    on_stage(scene)


def refusing(*pods: str) -> Callable[[str], str]:
    return lambda write: "refuse" if write.endswith(tuple(f"{pod}/binding" for pod in pods)) else ""


async def own_pods(stage: Stage) -> None:
    for pod in (await stage.client.list(POD)).items:
        owned = {"metadata": {"ownerReferences": [OWNER]}}
        await stage.client.patch(POD, pod["metadata"]["name"], owned, "default")


async def bound(stage: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in (await stage.client.list(POD)).items if pod["spec"].get("nodeName")]


async def present(stage: Stage) -> list[str]:
    pods = (await stage.client.list(POD)).items
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def make_again(stage: Stage) -> None:
    """What a Job controller does about deleted pods, the kubelet having let them go."""
    for pod in (await stage.client.list(POD)).items:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            await stage.client.delete(POD, meta["name"], "default", grace_seconds=0)
            kept = {
                key: meta[key]
                for key in ("name", "namespace", "annotations", "labels", "ownerReferences")
                if key in meta
            }
            spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
            await stage.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec})


def test_what_is_refused_for_a_while_is_completed_and_nothing_is_removed() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(10)
        assert await bound(stage) == ["a-t-0", "a-t-2"]
        refused = await stage.client.get(POD, "a-t-1", "default")
        (condition,) = refused["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == ("SchedulerError", "failed to bind to node n1: no")
        stage.line.fault = refusing()
        await stage.until_bound(*MEMBERS)
        await asyncio.sleep(60)
        assert await present(stage) == list(MEMBERS)

    on_torn_stage(script, "a-t-1")


def test_a_gang_that_was_completed_is_no_longer_torn_whatever_it_loses_then() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(2)
        stage.line.fault = refusing()
        await stage.until_bound(*MEMBERS)
        for name, phase in zip(MEMBERS, ("Running", "Running", "Failed"), strict=True):
            await stage.client.patch(POD, name, {"status": {"phase": phase}}, "default", subresource="status")
        await asyncio.sleep(60)
        assert await present(stage) == list(MEMBERS)

    on_torn_stage(script, "a-t-1")


def test_a_member_deleted_on_its_way_is_waited_for() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(2)
        again = await stage.client.get(POD, "a-t-1", "default")
        await stage.client.delete(POD, "a-t-1", "default", grace_seconds=0)
        stage.line.fault = refusing()
        await asyncio.sleep(5)
        kept = {key: again["metadata"][key] for key in ("name", "namespace", "annotations", "ownerReferences")}
        await stage.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": again["spec"]})
        await stage.until_bound(*MEMBERS)
        await asyncio.sleep(60)
        assert await present(stage) == list(MEMBERS)

    on_torn_stage(script, "a-t-1")


def test_what_cannot_be_completed_is_undone_and_then_bound_as_a_whole_or_not_at_all() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(25)
        assert await present(stage) == ["a-t-1"]
        told = [event["message"] for event in (await stage.client.list(EVENT)).items if event["reason"] == "GangUndone"]
        assert told[0].startswith(
            "2 of 3 pods were bound and the gang could not be completed, so they are removed; refused was a-t-1: "
        )
        await make_again(stage)
        for _ in range(12):
            await asyncio.sleep(10)
            assert await bound(stage) == []
        stage.line.fault = refusing()
        await stage.until_bound(*MEMBERS)

    on_torn_stage(script, "a-t-1")


def test_pods_nobody_would_make_again_are_not_removed() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(60)
        assert await present(stage) == list(MEMBERS)

    on_torn_stage(script, "a-t-1", owned=False)


def test_a_running_gang_that_is_being_repaired_is_left_alone() -> None:
    group = {"name": "a", "min": 3, "phase": "Running", "pods": [{"node": "n1"}, {}, {}]}

    async def script(stage: Stage) -> None:
        await asyncio.sleep(90)
        assert await bound(stage) == ["a-t-0", "a-t-2"]
        assert await present(stage) == list(MEMBERS)

    on_torn_stage(script, "a-t-1", given={**GANG, "groups": [group]})


def parted(minimum: int, of_partitions: int) -> dict[str, Any]:
    """Two partitions of two pods: a-t-0 and a-t-1 are the first."""
    pods = [{"partition": number // 2} for number in range(4)]
    group = {"name": "a", "min": minimum, "partitions": {"size": 2, "min": of_partitions}, "pods": pods}
    return {"nodes": [{"name": "n1", "cpu": 8}], "groups": [group]}


PARTED_MEMBERS = ("a-t-0", "a-t-1", "a-t-2", "a-t-3")


def test_a_gang_with_its_number_of_pods_but_no_whole_partition_is_undone() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(10)
        assert await bound(stage) == ["a-t-0", "a-t-2"]
        await asyncio.sleep(15)
        assert await present(stage) == ["a-t-1", "a-t-3"]

    on_torn_stage(script, "a-t-1", "a-t-3", given=parted(minimum=2, of_partitions=1))


def test_of_a_gang_that_has_its_minimum_only_the_torn_partition_is_undone() -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(25)
        assert await present(stage) == ["a-t-0", "a-t-1", "a-t-3"]
        told = [event["message"] for event in (await stage.client.list(EVENT)).items if event["reason"] == "GangUndone"]
        assert told[0].startswith("1 of 4 pods were bound and subgroup part-1 could not be completed")
        await make_again(stage)
        await asyncio.sleep(60)
        assert await bound(stage) == ["a-t-0", "a-t-1"]
        stage.line.fault = refusing()
        await stage.until_bound(*PARTED_MEMBERS)

    on_torn_stage(script, "a-t-3", given=parted(minimum=2, of_partitions=1))


def test_a_partition_that_comes_later_and_is_torn_is_undone() -> None:
    given = parted(minimum=2, of_partitions=1)
    pods = given["groups"][0]["pods"]
    given["groups"][0] |= {"phase": "Running", "pods": [pod | {"node": "n1"} for pod in pods[:2]] + pods[2:]}

    async def script(stage: Stage) -> None:
        await asyncio.sleep(25)
        assert await present(stage) == ["a-t-0", "a-t-1", "a-t-2"]

    on_torn_stage(script, "a-t-2", given=given)


def test_a_partition_that_is_being_repaired_is_left_alone() -> None:
    given = parted(minimum=2, of_partitions=1)
    pods = given["groups"][0]["pods"]
    pods[0] |= {"node": "n1"}
    pods[2] |= {"node": "n1"}
    given["groups"][0]["phase"] = "Running"

    async def script(stage: Stage) -> None:
        await asyncio.sleep(60)
        assert await bound(stage) == ["a-t-0", "a-t-2", "a-t-3"]
        assert await present(stage) == list(PARTED_MEMBERS)

    on_torn_stage(script, "a-t-1", given=given)


def test_a_gang_with_its_number_of_pods_but_too_few_of_a_role_is_undone() -> None:
    pods = [{"role": "ps"}, {"role": "worker"}, {"role": "worker"}, {"role": "worker"}]
    group = {"name": "a", "min": 3, "roles": {"ps": 1, "worker": 2}, "pods": pods}

    async def script(stage: Stage) -> None:
        await asyncio.sleep(25)
        assert await present(stage) == ["a-t-0"]

    on_torn_stage(script, "a-t-0", given={"nodes": [{"name": "n1", "cpu": 8}], "groups": [group]})


def test_a_group_that_is_gone_is_forgotten_when_another_is_undone() -> None:
    async def script(stage: Stage) -> None:
        cache, recorder = Cache(), Recorder(stage.client, "volcano", clock=LoopClock(), rng=random.Random(1))
        gangs = TornGangs(stage.client, cache, recorder, patience=1.0, end_rest=lambda _: None)
        running = asyncio.create_task(gangs.run())
        first, second = await half_bound(stage, cache, "first"), await half_bound(stage, cache, "second")
        gangs.note(first, [None, Conflict("no")])
        await asyncio.sleep(5)
        assert gangs.needs_rehearsal(first)
        cache.remove_group(await stage.group("first"))
        gangs.note(second, [None, Conflict("no")])
        await asyncio.sleep(5)
        assert gangs.needs_rehearsal(second)
        assert not gangs.needs_rehearsal(first)
        running.cancel()

    on_stage(script)


async def half_bound(stage: Stage, cache: Cache, name: str) -> list[Pod]:
    """A gang of two, one of which has a node, as the server and the cache know it."""
    await stage.add({"groups": [{"name": name, "min": 2, "pods": [{"node": "n1"}, {}]}]})
    await own_pods(stage)
    cache.put_group(await stage.group(name))
    live = [await stage.client.get(POD, f"{name}-t-{number}", "default") for number in range(2)]
    for each in live:
        cache.put_pod(each)
    return [pod for each in live if (pod := cache.pod(uid_of(each))) is not None]
