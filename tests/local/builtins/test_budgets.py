"""The status of a budget says how many of its pods may leave, and evictions hold to that."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hekla.api.kinds import NAMESPACE, POD, POD_DISRUPTION_BUDGET
from tests.apiserver.budget_cases import CASES, LABELS, Case, budget, define_owners, evict, set_up, status_of
from tests.apiserver.quota_cases import pod
from tests.apiserver.rig import Rig
from tests.integration.faults import WrongClock
from tests.local.builtins.test_furnishing import with_builtins

QUIET = 5.0
HERE = "default"


async def make_pods(rig: Rig, *names: str, **spec: object) -> None:
    for name in names:
        metadata = {"name": name, "namespace": HERE, "labels": LABELS}
        await rig.client.create(POD, {**pod(name, **spec), "metadata": metadata})
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await rig.client.patch(POD, name, {"status": ready}, HERE, subresource="status")


async def allowed(rig: Rig) -> int:
    await asyncio.sleep(QUIET)
    numbers, _, _ = await status_of(rig.client, HERE)
    return int(numbers["disruptionsAllowed"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_budget_allows_what_it_would_on_a_real_cluster(case: Case) -> None:
    async def script(rig: Rig) -> None:
        await define_owners(rig.client)
        await rig.client.create(NAMESPACE, {"metadata": {"name": "limited"}})
        await set_up(rig.client, case, "limited")
        await asyncio.sleep(QUIET)
        assert await status_of(rig.client, "limited") == (case.status, case.reason, case.message)
        for name, told in case.told.items():
            assert await evict(rig.client, name, "limited") == told
            await asyncio.sleep(QUIET)
        if case.left:
            assert (await status_of(rig.client, "limited"))[0] == case.left

    with_builtins(script)


def test_it_follows_pods_as_they_come_go_and_change_sides() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}))
        assert await allowed(rig) == 0
        await make_pods(rig, "a", "b", "c")
        assert await allowed(rig) == 2
        await rig.client.delete(POD, "a", HERE)
        assert await allowed(rig) == 1
        await rig.client.patch(POD, "b", {"metadata": {"labels": {"app": "other"}}}, HERE)
        assert await allowed(rig) == 0
        await rig.client.patch(POD_DISRUPTION_BUDGET, "b", {"spec": {"minAvailable": 0}}, HERE)
        assert await allowed(rig) == 1
        found = await rig.client.get(POD_DISRUPTION_BUDGET, "b", HERE)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 2

    with_builtins(script)


async def note_an_eviction(rig: Rig) -> None:
    """Of one of two pods, which is there nevertheless: until that is over, none may be evicted."""
    await make_pods(rig, "a", "b")
    await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}))
    assert await allowed(rig) == 1
    found = await rig.client.get(POD_DISRUPTION_BUDGET, "b", HERE)
    noted = {**found["status"], "disruptionsAllowed": 0, "disruptedPods": {"a": "2030-01-01T00:00:09Z"}}
    await rig.client.update_status(POD_DISRUPTION_BUDGET, {**found, "status": noted})
    assert await allowed(rig) == 0


def test_a_pod_that_was_evicted_and_is_still_there_is_counted_again_after_a_while() -> None:
    async def script(rig: Rig) -> None:
        await note_an_eviction(rig)
        await asyncio.sleep(120)
        assert await allowed(rig) == 1
        found = await rig.client.get(POD_DISRUPTION_BUDGET, "b", HERE)
        assert "disruptedPods" not in found["status"]

    with_builtins(script)


def test_a_pod_that_was_evicted_is_counted_again_as_soon_as_the_machine_wakes_that_slept_meanwhile() -> None:
    clock = WrongClock()

    async def script(rig: Rig) -> None:
        await note_an_eviction(rig)
        clock.set(timedelta(hours=1))
        assert await allowed(rig) == 1

    with_builtins(script, clock=clock)


def test_another_pod_of_the_same_name_is_none_that_was_evicted() -> None:
    async def script(rig: Rig) -> None:
        await make_pods(rig, "a", "b")
        await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}))
        for _ in range(3):
            assert await allowed(rig) == 1
            assert await evict(rig.client, "a", HERE) == ""
            await asyncio.sleep(2)
            await make_pods(rig, "a")

    with_builtins(script)


def test_budgets_may_all_go_and_come_again() -> None:
    async def script(rig: Rig) -> None:
        await make_pods(rig, "a", "b")
        for _ in range(3):
            await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}))
            assert await allowed(rig) == 1
            await rig.client.delete(POD_DISRUPTION_BUDGET, "b", HERE)
            await asyncio.sleep(QUIET)

    with_builtins(script)


def test_evictions_at_the_same_moment_never_take_more_than_is_allowed() -> None:
    async def script(rig: Rig) -> None:
        names = [f"p{number}" for number in range(30)]
        await make_pods(rig, *names)
        await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 10}))
        assert await allowed(rig) == 20
        told = await asyncio.gather(*(evict(rig.client, name, HERE) for name in names))
        assert sum(not each for each in told) == 20
        assert await allowed(rig) == 0
        assert len(await rig.client.find_all(POD, HERE)) == 10

    with_builtins(script)
