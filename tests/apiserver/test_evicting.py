"""An eviction spends what a budget allows, once, and says why when it may not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import POD, POD_DISRUPTION_BUDGET, Obj
from tests.apiserver.budget_cases import LABELS, LATER, SEVERAL, budget, evict
from tests.apiserver.quota_cases import pod
from tests.apiserver.rig import Rig, with_server

HERE = "default"


async def make_pod(rig: Rig, name: str, phase: str = "Running", ready: bool = True) -> None:
    await rig.client.create(POD, {**pod(name), "metadata": {"name": name, "namespace": HERE, "labels": LABELS}})
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    await rig.client.patch(POD, name, {"status": status}, HERE, subresource="status")


async def allow(rig: Rig, allowed: int, name: str = "b", **status: Any) -> None:
    made = await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}, name=name))
    full = {"disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1}
    wanted = {**made, "status": {**full, "observedGeneration": 1, **status}}
    await rig.client.update_status(POD_DISRUPTION_BUDGET, wanted)


async def status_of(rig: Rig) -> Obj:
    return dict((await rig.client.get(POD_DISRUPTION_BUDGET, "b", HERE))["status"])


def test_what_is_spent_is_noted_with_the_pod_and_the_last_one_changes_the_condition() -> None:
    async def script(rig: Rig) -> None:
        await make_pod(rig, "p")
        await allow(rig, 1)
        assert await evict(rig.client, "p", HERE) == ""
        status = await status_of(rig)
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["p"]
        assert [(each["status"], each["reason"]) for each in status["conditions"]] == [("False", "InsufficientPods")]
        assert await rig.client.find(POD, "p", HERE) is None

    with_server(script)


def test_of_two_at_the_same_moment_one_gets_the_last() -> None:
    async def script(rig: Rig) -> None:
        for name in ("p", "q"):
            await make_pod(rig, name)
        await allow(rig, 1)
        told = await asyncio.gather(evict(rig.client, "p", HERE), evict(rig.client, "q", HERE))
        assert sorted(told) == ["", "The disruption budget b needs 1 healthy pods and has 1 currently"]
        assert len(await rig.client.find_all(POD)) == 1

    with_server(script)


def test_nothing_is_allowed_before_the_budget_as_it_is_has_been_counted() -> None:
    async def script(rig: Rig) -> None:
        await make_pod(rig, "p")
        await rig.client.create(POD_DISRUPTION_BUDGET, budget({"minAvailable": 1}))
        assert await evict(rig.client, "p", HERE) == LATER
        _, answer, headers = await rig.send("POST", f"{POD.path(HERE)}/p/eviction", {"metadata": {"name": "p"}})
        assert answer["details"]["retryAfterSeconds"] == 10
        assert headers["retry-after"] == "10"

    with_server(script)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_who_does_not_run_is_no_loss(phase: str) -> None:
    async def script(rig: Rig) -> None:
        await make_pod(rig, "p", phase)
        await allow(rig, 0)
        assert await evict(rig.client, "p", HERE) == ""
        assert "disruptedPods" not in await status_of(rig)

    with_server(script)


def test_a_dry_run_spends_and_removes_nothing() -> None:
    async def script(rig: Rig) -> None:
        await make_pod(rig, "p")
        await allow(rig, 1)
        path = f"{POD.path(HERE)}/p/eviction?dryRun=All"
        assert (await rig.send("POST", path, {"metadata": {"name": "p"}}))[0] == 201
        assert (await status_of(rig))["disruptionsAllowed"] == 1
        assert await rig.client.find(POD, "p", HERE) is not None

    with_server(script)


def test_why_nothing_is_allowed_is_told() -> None:
    condition = {"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    cases: list[tuple[Obj, str]] = [
        ({"conditions": [{**condition, "reason": "SyncFailed", "message": "odd"}]}, " because it failed sync: odd"),
        ({"currentHealthy": 4, "conditions": [{**condition, "reason": "Why", "message": "odd"}]}, " (Why): odd"),
        ({"currentHealthy": 4}, ""),
    ]

    async def script(rig: Rig) -> None:
        await make_pod(rig, "p")
        for status, told in cases:
            await allow(rig, 0, **status)
            said = await evict(rig.client, "p", HERE)
            assert said == f"The disruption budget b does not allow evicting pods currently{told}"
            await rig.client.delete(POD_DISRUPTION_BUDGET, "b", HERE)

    with_server(script)


def test_odd_budgets_are_refused() -> None:
    async def script(rig: Rig) -> None:
        await make_pod(rig, "p")
        path, body = f"{POD.path(HERE)}/p/eviction", {"metadata": {"name": "p"}}
        await allow(rig, 1, disruptedPods={f"x{n}": "2030-01-01T00:00:00Z" for n in range(2001)})
        code, answer, _ = await rig.send("POST", path, body)
        assert (code, answer["message"].partition(":")[0]) == (403, 'poddisruptionbudget.policy "b" is forbidden')
        await allow(rig, 1, "another")
        code, answer, _ = await rig.send("POST", path, body)
        assert (code, answer["message"]) == (500, SEVERAL)

    with_server(script)
