"""What people set as limits of a namespace holds for the scheduler as well: the local cluster counts for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hekla.api.kinds import JOB, POD, POD_DISRUPTION_BUDGET, POD_GROUP, PRIORITY_CLASS, RESOURCE_QUOTA, Obj
from hekla.api.meta import annotations_of, name_of, uid_of
from hekla.api.reasons import REASON_ANNOTATION
from hekla.scheduler.scheduler import SchedulerSettings
from tests.apiserver.budget_cases import LABELS, budget
from tests.apiserver.quota_cases import quota
from tests.integration.test_whole_system import job
from tests.integration.world import World, in_world

LIMITING = SchedulerSettings(conf=Path(__file__).parent / "limits-scheduler.conf")


def reason(world: World, name: str) -> str:
    groups = [group for group in world.store.objects(POD_GROUP) if name_of(group).startswith(f"{name}-")]
    return annotations_of(groups[0]).get(REASON_ANNOTATION, "") if groups else ""


def used(world: World) -> dict[str, str]:
    status = (world.store.object(RESOURCE_QUOTA, "q", "default") or {}).get("status") or {}
    return {"requests.cpu": "", "pods": "", **status.get("used", {})}


def pods_of(world: World, name: str) -> list[Obj]:
    return [pod for pod in world.store.objects(POD) if name_of(pod).startswith(f"{name}-")]


def test_a_group_waits_until_the_quota_has_room_for_all_of_it_and_then_enters() -> None:
    async def script(world: World) -> None:
        await world.client.create(RESOURCE_QUOTA, in_default(quota({"requests.cpu": "3", "pods": "9"})))
        await world.client.create(JOB, job("first", 2, seconds=30))
        await world.until(lambda: used(world)["requests.cpu"] == "2", "the quota knows of the first")
        await world.client.create(JOB, job("second", 2, seconds=5))
        await world.until(lambda: reason(world, "second") == "QuotaExceeded", "it is told that the quota is used up")
        assert world.phase("first") == "Running"
        assert not pods_of(world, "second"), "nothing was made that could only be refused"
        await world.until_phase("Completed", "first")
        await world.until_phase("Completed", "second")
        assert used(world) == {"requests.cpu": "0", "pods": "0"}

    in_world(script, world=World(settings=LIMITING))


def test_pods_that_a_quota_refuses_are_made_when_it_has_room() -> None:
    """The built-in configuration looks at no quota: the server refuses, and the Job goes on when it can."""

    async def script(world: World) -> None:
        await world.client.create(RESOURCE_QUOTA, in_default(quota({"pods": "2"})))
        await world.client.create(JOB, job("first", 2, seconds=30))
        await world.until_phase("Running", "first")
        await world.client.create(JOB, job("second", 2, seconds=5))
        await world.until_phase("Completed", "second")

    in_world(script)


@pytest.mark.parametrize("limited", [True, False])
def test_pods_whose_budget_allows_no_disruption_are_spared_and_others_make_room(limited: bool) -> None:
    async def script(world: World) -> None:
        for value, name in enumerate(("lowest", "low", "high")):
            wish = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await world.client.create(PRIORITY_CLASS, {**wish, "value": value})
        if limited:
            await world.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 2}))
        for name, priority in (("spared", "lowest"), ("other", "low")):
            elastic = job(name, 2, seconds=600, minAvailable=1, priorityClassName=priority)
            await world.client.create(JOB, labelled(elastic))
        await world.until(lambda: list(world.pod_phases().values()) == ["Running"] * 4, "all run")
        before = {name_of(pod): uid_of(pod) for pod in world.store.objects(POD)}
        if limited:
            await world.until(lambda: healthy(world) == 2, "the budget knows of its pods")
        await world.client.create(JOB, job("urgent", 1, seconds=5, priorityClassName="high"))
        await world.until_phase("Completed", "urgent")
        # Who made room is made again, as another pod.
        now = {uid_of(pod) for pod in world.store.objects(POD)}
        (left,) = [name for name, uid in before.items() if uid not in now]
        assert left.startswith("other-" if limited else "spared-")

    in_world(script, world=World(settings=LIMITING))


def test_who_counts_may_die_at_any_time_and_the_next_one_knows() -> None:
    async def script(world: World) -> None:
        await world.client.create(RESOURCE_QUOTA, in_default(quota({"pods": "9"})))
        await world.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}))
        for number in range(1, 4):
            await world.client.create(JOB, labelled(job("spared", number, seconds=600)))
            await asyncio.sleep(0.01 * number)
            await world.kill("builtins")
            await world.until_phase("Running", "spared")
            world.start("builtins")
            await world.until(lambda n=number: used(world)["pods"] == str(n), "the quota knows")  # type: ignore[misc]
            await world.until(lambda n=number: healthy(world) == n, "the budget knows")  # type: ignore[misc]
            await world.kill("builtins")
            await world.client.delete(JOB, "spared", "default")
            world.start("builtins")
            await world.until(lambda: used(world)["pods"] == "0" and healthy(world) == 0, "both know that all are gone")

    in_world(script)


def labelled(wish: Obj) -> Obj:
    """Pods of the Job `spared` are those the budget covers."""
    if name_of(wish) == "spared":
        wish["spec"]["tasks"][0]["template"]["metadata"]["labels"] = dict(LABELS)
    return wish


def healthy(world: World) -> int:
    status = (world.store.object(POD_DISRUPTION_BUDGET, "b", "default") or {}).get("status") or {}
    return int(status.get("currentHealthy") or 0)


def in_default(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
