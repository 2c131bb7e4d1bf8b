"""The status of a quota says what is allowed and used, whatever happens to the objects and to who counts them."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD, RESOURCE_QUOTA, Obj
from tests.apiserver.quota_cases import CASES, Case, pod, quota, status, tell
from tests.apiserver.rig import WIDGET, WIDGETS, Rig, widget
from tests.local.builtins.test_furnishing import with_builtins

QUIET = 5.0


async def used(rig: Rig, namespace: str = "default") -> dict[str, str]:
    await asyncio.sleep(QUIET)
    return dict((await status(rig.client, namespace)).get("used") or {})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_used_is_what_was_let_in(case: Case) -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "limited"}})
        await asyncio.sleep(QUIET)
        assert await tell(rig.client, case.quota, "limited") == ""
        for obj, _ in case.steps:
            await tell(rig.client, obj, "limited")
        assert await used(rig, "limited") == case.used
        assert (await status(rig.client, "limited"))["hard"] == case.quota["spec"]["hard"]

    with_builtins(script)


def test_it_follows_pods_that_end_go_or_cannot_go() -> None:
    async def script(rig: Rig) -> None:
        await tell(rig.client, quota({"pods": "9", "count/pods": "9"}), "default")
        assert await used(rig) == {"pods": "0", "count/pods": "0"}
        for name in "abc":
            await tell(rig.client, pod(name, nodeName="lost" if name == "c" else ""), "default")
        await rig.client.patch(POD, "a", {"status": {"phase": "Failed"}}, "default", subresource="status")
        await rig.client.delete(POD, "b", "default")
        assert await used(rig) == {"pods": "1", "count/pods": "2"}
        await rig.client.delete(POD, "c", "default")
        assert await used(rig) == {"pods": "1", "count/pods": "2"}
        await asyncio.sleep(60)
        assert await used(rig) == {"pods": "0", "count/pods": "2"}

    with_builtins(script)


def test_a_changed_quota_is_counted_anew_and_says_no_more_of_what_it_was() -> None:
    async def script(rig: Rig) -> None:
        await tell(rig.client, quota({"pods": "9"}), "default")
        await tell(rig.client, pod("a", {"cpu": "1500m"}), "default")
        assert await used(rig) == {"pods": "1"}
        found = await rig.client.get(RESOURCE_QUOTA, "q", "default")
        await rig.client.update(RESOURCE_QUOTA, {**found, "spec": {"hard": {"cpu": "2"}}})
        assert await used(rig) == {"cpu": "1500m"}
        assert (await status(rig.client, "default"))["hard"] == {"cpu": "2"}

    with_builtins(script)


def test_a_kind_that_comes_later_is_counted_from_then_on() -> None:
    async def script(rig: Rig) -> None:
        await tell(rig.client, quota({"pods": "9", "count/widgets.example.org": "5"}), "default")
        assert await used(rig) == {"pods": "0"}
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, WIDGETS)
        await rig.client.create(WIDGET, widget())
        await asyncio.sleep(30)
        assert await used(rig) == {"pods": "0", "count/widgets.example.org": "1"}

    with_builtins(script)


def test_what_somebody_else_wrote_is_put_right() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(RESOURCE_QUOTA, placed(quota({"pods": "9"})))
        await tell(rig.client, pod("a"), "default")
        for _ in range(2):
            wrong = {"hard": {"pods": "1"}, "used": {"pods": "7", "secrets": "1"}}
            await rig.client.update_status(RESOURCE_QUOTA, {**made, "status": wrong})
            assert await used(rig) == {"pods": "1"}
            made = await rig.client.get(RESOURCE_QUOTA, "q", "default")

    with_builtins(script)


def test_a_swarm_of_pods_is_told_in_a_few_writes() -> None:
    async def script(rig: Rig) -> None:
        await tell(rig.client, quota({"pods": "1000"}), "default")
        await used(rig)
        before = rig.store.revision
        await rig.client.create_many(POD, [placed(pod(f"p{n}")) for n in range(500)])
        assert await used(rig) == {"pods": "500"}
        assert rig.store.revision - before < 520

    with_builtins(script)


def placed(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
