"""What a real cluster makes of disruption budgets: the cases the local one is held to."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from hekla.api.kinds import POD_DISRUPTION_BUDGET
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.errors import ApiError
from tests.apiserver.budget_cases import (
    CASES,
    GADGET,
    GIZMO,
    SEVERAL,
    Case,
    budget,
    define_owners,
    evict,
    send_eviction,
    set_up,
    status_of,
)
from tests.cluster.control_plane import ControlPlane
from tests.cluster.test_quotas import furnish
from tests.eventually import until

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_cluster_counts_and_evicts_the_same(case: Case, control_plane: ControlPlane) -> None:
    async def play() -> dict[str, str]:
        async with client_from_files([control_plane.kubeconfig]) as client:
            namespace = f"budget-{CASES.index(case)}"
            await furnish(client, namespace)
            await define_owners(client)
            await until(lambda: are_served(client), what="the owners are served")
            await set_up(client, case, namespace)
            wanted = (case.status, case.reason, case.message)
            await until(lambda: is_told(client, namespace, wanted), what=f"the status is {wanted}")
            told = {}
            for name, expected in case.told.items():
                told[name] = await evict(client, name, namespace)
                if not expected:
                    await until(lambda: is_settled(client, namespace), what="the eviction is counted")
            if case.left:
                await until(lambda: has_left(client, namespace, case.left), what=f"{case.left} is left")
            return told

    assert asyncio.run(play()) == case.told


def test_a_pod_of_two_budgets_is_not_evicted(control_plane: ControlPlane) -> None:
    async def play() -> tuple[int, str]:
        async with client_from_files([control_plane.kubeconfig]) as client:
            await furnish(client, "two-budgets")
            await set_up(client, CASES[0], "two-budgets")
            await client.create(POD_DISRUPTION_BUDGET, budget(CASES[0].spec, "two-budgets", "another"))
            try:
                await send_eviction(client, "p0", "two-budgets")
            except ApiError as refused:
                return refused.code, str(refused)
            return 201, ""

    assert asyncio.run(play()) == (500, SEVERAL)


async def are_served(client: Client) -> bool:
    try:
        for kind in (GADGET, GIZMO):
            await client.list(kind)
    except ApiError:
        return False
    return True


async def is_told(client: Client, namespace: str, wanted: Any) -> bool:
    if await status_of(client, namespace) == wanted:
        return True
    # Kinds that are new to it are learned by and by; it does not look again by itself.
    notes = {"looked": str(time.monotonic())}
    await client.patch(POD_DISRUPTION_BUDGET, "b", {"metadata": {"annotations": notes}}, namespace)
    return False


async def is_settled(client: Client, namespace: str) -> bool:
    """Nothing is noted of pods that are gone."""
    found = await client.get(POD_DISRUPTION_BUDGET, "b", namespace)
    return not found["status"].get("disruptedPods")


async def has_left(client: Client, namespace: str, left: dict[str, int]) -> bool:
    return bool((await status_of(client, namespace))[0] == left)
