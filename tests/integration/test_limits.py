"""What people set as limits of a namespace holds for the scheduler as well: the local cluster counts for it."""

from __future__ import annotations

from pathlib import Path

from hekla.api.kinds import JOB, POD, POD_GROUP, RESOURCE_QUOTA, Obj
from hekla.api.meta import annotations_of, name_of
from hekla.api.reasons import REASON_ANNOTATION
from hekla.scheduler.scheduler import SchedulerSettings
from tests.apiserver.quota_cases import quota
from tests.integration.test_whole_system import job
from tests.integration.world import World, in_world

LIMITING = SchedulerSettings(conf=Path(__file__).parent / "limits-scheduler.conf")


def reason(world: World, name: str) -> str:
    groups = [group for group in world.store.objects(POD_GROUP) if name_of(group).startswith(f"{name}-")]
    return annotations_of(groups[0]).get(REASON_ANNOTATION, "") if groups else ""


def used(world: World) -> dict[str, str]:
    status = (world.store.object(RESOURCE_QUOTA, "q", "default") or {}).get("status") or {}
    return {"requests.cpu": "", **status.get("used", {})}


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


def in_default(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
