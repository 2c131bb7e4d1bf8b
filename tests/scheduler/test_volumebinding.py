"""Volumes are seen to before pods are bound: against the real API server in memory; the test makes the volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hekla.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, Obj
from hekla.api.meta import annotations_of
from hekla.api.reasons import REASON_ANNOTATION
from hekla.scheduler.storage import SELECTED_NODE
from hekla.scheduler.trial.storage_objects import claim_object, class_object, volume_object
from tests.scheduler.test_scheduler import Stage, on_stage

DISKS = "disks.example.com"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
GANG: dict[str, Any] = {
    "nodes": [{"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 2}],
    "groups": [{"name": "a", "min": 2, "pods": [{"claims": ["data"], "cpu": 2}, {"cpu": 2}]}],
}


def on_furnished_stage(
    script: Callable[[Stage], Awaitable[None]], provisioner: str, *volumes: Obj, cut: str = "nothing"
) -> None:
    """A scheduler runs and waits for a gang's volume; what it writes to a path with `cut` in it does not arrive."""

    async def scene(stage: Stage) -> None:
        await furnish(stage, provisioner, *volumes)
        stage.start().fault = lambda write: "cut" if cut in write else ""
        await stage.add(GANG)
        await stage.until(lambda: is_waited_for(stage))
        await script(stage)
        await stage.stop()

    on_stage(scene)


async def furnish(stage: Stage, provisioner: str, *volumes: Obj) -> None:
    storage_class = class_object("lazy", provisioner)
    await stage.client.create(STORAGE_CLASS, {"apiVersion": STORAGE_CLASS.api_version, **storage_class})
    for volume in volumes:
        await stage.client.create(PERSISTENT_VOLUME, {"apiVersion": "v1", **volume})
    await add_claim(stage, "data")


async def add_claim(stage: Stage, name: str) -> None:
    claim = {"apiVersion": "v1", **claim_object(name)}
    claim["metadata"]["namespace"] = "default"
    await stage.client.create(PERSISTENT_VOLUME_CLAIM, claim)


async def claim_of(stage: Stage, name: str = "data") -> Obj:
    return await stage.client.get(PERSISTENT_VOLUME_CLAIM, name, "default")


async def is_waited_for(stage: Stage) -> bool:
    return annotations_of(await stage.group("a")).get(REASON_ANNOTATION) == "WaitingForVolume"


async def node_is_told(stage: Stage, claim: str = "data") -> bool:
    return SELECTED_NODE in annotations_of(await claim_of(stage, claim))


async def is_told(stage: Stage, text: str) -> bool:
    conditions = (await stage.client.get(POD, "a-t-0", "default"))["status"].get("conditions") or ()
    return any(text in condition.get("message", "") for condition in conditions)


async def owner_of(stage: Stage, volume: str) -> str:
    found = await stage.client.get(PERSISTENT_VOLUME, volume)
    return str((found["spec"].get("claimRef") or {}).get("name") or "")


async def is_owned(stage: Stage, volume: str) -> bool:
    return await owner_of(stage, volume) == "data"


async def bind_claim(stage: Stage, volume: str, claim: str = "data") -> None:
    """What the volume controller of a cluster does in the end."""
    patch = {"spec": {"volumeName": volume}}
    await stage.client.patch(PERSISTENT_VOLUME_CLAIM, claim, patch, "default")
    patch = {"status": {"phase": "Bound"}}
    await stage.client.patch(PERSISTENT_VOLUME_CLAIM, claim, patch, "default", subresource="status")


def test_a_claim_is_told_the_node_and_its_gang_bound_once_there_is_a_volume() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: node_is_told(stage))
        await asyncio.sleep(30)
        assert not await stage.are_bound("a-t-0")
        assert not await stage.are_bound("a-t-1"), "the gang is bound as one"
        node = annotations_of(await claim_of(stage))[SELECTED_NODE]
        made = volume_object("made", node=node, owner="data", driver=DISKS)
        await stage.client.create(PERSISTENT_VOLUME, {"apiVersion": "v1", **made})
        await bind_claim(stage, "made")
        await stage.until_bound("a-t-0", "a-t-1")
        assert await stage.node_of("a-t-0") == node

    on_furnished_stage(script, DISKS)


def test_a_volume_that_is_there_is_reserved_for_the_claim() -> None:
    async def script(stage: Stage) -> None:
        assert [await owner_of(stage, name) for name in ("on-2", "big")] == ["data", ""]
        await bind_claim(stage, "on-2")
        await stage.until_bound("a-t-0", "a-t-1")
        assert await stage.node_of("a-t-0") == "n2"

    on_furnished_stage(script, NO_PROVISIONER, volume_object("big", "9Gi", "n2"), volume_object("on-2", node="n2"))


def test_room_on_the_node_is_kept_while_the_volume_is_made() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: node_is_told(stage))
        await stage.add({"groups": [{"name": "b", "min": 1, "pods": [{"cpu": 2}]}]})
        await asyncio.sleep(30)
        assert not await stage.are_bound("b-t-0")

    on_furnished_stage(script, DISKS)


def test_a_volume_that_never_comes_gives_the_room_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: node_is_told(stage))
        await stage.client.delete(PERSISTENT_VOLUME_CLAIM, "data", "default")
        await stage.client.patch(PERSISTENT_VOLUME_CLAIM, "data", {"metadata": {"finalizers": None}}, "default")
        await stage.add({"groups": [{"name": "b", "min": 1, "pods": [{"cpu": 2}]}]})
        await stage.until_bound("b-t-0")
        conditions = (await stage.client.get(POD, "a-t-0", "default"))["status"]["conditions"]
        assert any("claim" in condition.get("message", "") for condition in conditions)

    on_furnished_stage(script, DISKS)


def test_a_volume_that_goes_before_it_is_bound_gives_the_room_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: is_owned(stage, "on-2"))
        await stage.client.delete(PERSISTENT_VOLUME, "on-2")
        await stage.add({"groups": [{"name": "b", "min": 1, "pods": [{"cpu": 2}]}]})
        await asyncio.sleep(30)
        assert await stage.are_bound("b-t-0")

    on_furnished_stage(script, NO_PROVISIONER, volume_object("on-2", node="n2"))


def test_a_node_for_which_no_volume_can_be_made_is_given_up_and_decided_anew() -> None:
    """As provisioners say it: they take the node back."""

    async def script(stage: Stage) -> None:
        await stage.until(lambda: node_is_told(stage))
        patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        await stage.client.patch(PERSISTENT_VOLUME_CLAIM, "data", patch, "default")
        await asyncio.sleep(30)
        conditions = (await stage.client.get(POD, "a-t-0", "default"))["status"]["conditions"]
        assert any("no volume was made" in condition.get("message", "") for condition in conditions)
        assert await node_is_told(stage)
        assert not await stage.are_bound("a-t-0")

    on_furnished_stage(script, DISKS)


def test_a_scheduler_that_is_started_again_goes_on_with_the_same_node() -> None:
    async def script(stage: Stage) -> None:
        await stage.until(lambda: node_is_told(stage))
        node = annotations_of(await claim_of(stage))[SELECTED_NODE]
        await stage.stop()
        stage.start()
        await asyncio.sleep(30)
        made = volume_object("made", node=node, owner="data", driver=DISKS)
        await stage.client.create(PERSISTENT_VOLUME, {"apiVersion": "v1", **made})
        await bind_claim(stage, "made")
        await stage.until_bound("a-t-0", "a-t-1")
        assert await stage.node_of("a-t-0") == node == annotations_of(await claim_of(stage))[SELECTED_NODE]

    on_furnished_stage(script, DISKS)


def test_a_volume_that_somebody_else_took_is_not_taken_from_them() -> None:
    async def script(stage: Stage) -> None:
        reserved = {"spec": {"claimRef": {"namespace": "default", "name": "other"}}}
        await stage.client.patch(PERSISTENT_VOLUME, "on-1", reserved)
        stage.line.fault = lambda write: ""
        await stage.until(lambda: is_owned(stage, "on-2"))
        assert await owner_of(stage, "on-1") == "other"

    on_furnished_stage(
        script,
        NO_PROVISIONER,
        volume_object("on-2", node="n2"),
        volume_object("on-1", node="n1"),
        cut="persistentvolumes",
    )


def test_a_volume_that_is_promised_is_promised_once() -> None:
    async def script(stage: Stage) -> None:
        await add_claim(stage, "second")
        await stage.add({"nodes": [{"name": "n3"}], "groups": [{"name": "b", "pods": [{"claims": ["second"]}]}]})

        async def is_refused() -> bool:
            return "didn't find available persistent volumes" in await stage.condition("b")

        await stage.until(is_refused)
        stage.line.fault = lambda write: ""
        await stage.until(lambda: is_owned(stage, "only"))

    on_furnished_stage(script, NO_PROVISIONER, volume_object("only"), cut="persistentvolumes")


def test_that_a_volume_is_waited_for_is_told_though_it_cannot_be_at_first() -> None:
    async def script(stage: Stage) -> None:
        await furnish(stage, DISKS)
        line = stage.start()
        line.fault = lambda write: "refuse" if "/podgroups/a" in write else ""
        await stage.add(GANG)
        await stage.until(lambda: node_is_told(stage))
        # Something else happens: a cycle that has nothing to decide about the gang.
        await stage.add({"nodes": [{"name": "n3", "cpu": 1}]})
        await asyncio.sleep(1)
        line.fault = lambda write: ""
        await stage.until(lambda: is_waited_for(stage))
        await stage.stop()

    on_stage(script)


def test_a_gang_whose_new_pod_waits_for_its_volume_enters_in_the_end_though_others_come_meanwhile() -> None:
    async def script(stage: Stage) -> None:
        await furnish(stage, DISKS)
        runs = {"node": "n1", "phase": "Running"}
        await stage.add({"nodes": [{"name": "n1"}], "groups": [{"name": "a", "min": 2, "pods": [runs, runs]}]})
        stage.start()
        await asyncio.sleep(5.0)
        await stage.client.delete(POD, "a-t-0", "default", grace_seconds=0)
        await stage.add_pod({"name": "a-t-0", "cpu": 1, "claims": ["data"]}, "a")
        for number in range(40):
            await asyncio.sleep(1.0)
            await stage.add({"groups": [{"name": f"s{number}", "min": 1, "pods": [{"cpu": 0.01}]}]})
        assert await is_waited_for(stage)
        assert (await stage.group("a"))["status"]["phase"] == "Inqueue"
        await stage.stop()

    on_stage(script)


def test_of_a_pod_with_two_claims_nothing_is_bound_while_one_is_refused_and_both_get_one_node_in_the_end() -> None:
    async def script(stage: Stage) -> None:
        await furnish(stage, DISKS)
        await add_claim(stage, "more")
        stage.start().fault = lambda write: "refuse" if "claims/more" in write else ""
        await stage.add({**GANG, "groups": [{"name": "a", "pods": [{"claims": ["data", "more"], "cpu": 2}]}]})
        await stage.until(lambda: is_told(stage, "volumes are not bound"))
        node = annotations_of(await claim_of(stage))[SELECTED_NODE]
        # The room is given back at once, and taken by somebody else for a while.
        await stage.add({"groups": [{"name": "b", "phase": "Running", "pods": [{"node": node, "cpu": 2}]}]})
        stage.line.fault = lambda write: ""
        await stage.until(lambda: is_told(stage, "Insufficient cpu"))
        assert not await stage.are_bound("a-t-0")
        await stage.client.delete(POD, "b-t-0", "default", grace_seconds=0)
        await stage.until(lambda: node_is_told(stage, "more"))
        for name in ("data", "more"):
            made = volume_object(f"made-for-{name}", node=node, owner=name, driver=DISKS)
            await stage.client.create(PERSISTENT_VOLUME, {"apiVersion": "v1", **made})
            assert not await stage.are_bound("a-t-0")
            await bind_claim(stage, f"made-for-{name}", name)
        await stage.until_bound("a-t-0")
        assert await stage.node_of("a-t-0") == node
        await stage.stop()

    on_stage(script)
