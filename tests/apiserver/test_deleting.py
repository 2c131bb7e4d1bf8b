"""Deleting: at once, gracefully, behind finalizers, under preconditions."""

from __future__ import annotations

import pytest

from hekla.api.kinds import CONFIG_MAP, POD
from hekla.errors import Conflict, Invalid
from tests.apiserver.rig import Rig, config_map, pod, with_server


async def bound(rig: Rig, name: str = "p") -> dict[str, object]:
    made = await rig.client.create(POD, pod(name))
    await rig.client.bind("default", name, "n", uid=made["metadata"]["uid"])
    return made


def test_what_has_no_finalizer_goes_at_once() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(CONFIG_MAP, config_map())
        answer = await rig.client.delete(CONFIG_MAP, "a", "default")
        assert answer["status"] == "Success"
        assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
        assert await rig.client.find(CONFIG_MAP, "a", "default") is None

    with_server(script)


def test_a_finalizer_holds_the_object_until_it_is_removed() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map(finalizers=["example.org/wait"]))
        marked = await rig.client.delete(CONFIG_MAP, "a", "default")
        assert marked["metadata"]["deletionTimestamp"]
        more = {"metadata": {"finalizers": ["example.org/wait", "example.org/more"]}}
        with pytest.raises(Invalid, match="no new finalizers can be added"):
            await rig.client.patch(CONFIG_MAP, "a", more, "default")
        again = await rig.client.delete(CONFIG_MAP, "a", "default")
        assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
        await rig.client.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, "default")
        assert await rig.client.find(CONFIG_MAP, "a", "default") is None

    with_server(script)


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_a_policy_leaves_its_finalizer(policy: str, finalizer: str) -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        marked = await rig.client.delete(CONFIG_MAP, "a", "default", propagation=policy)
        assert marked["metadata"]["finalizers"] == [finalizer]
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0

    with_server(script)


def test_preconditions_protect_another_object_of_the_same_name() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        with pytest.raises(Conflict, match="the UID in the precondition"):
            await rig.client.delete(CONFIG_MAP, "a", "default", uid="other")
        with pytest.raises(Conflict, match="the ResourceVersion in the precondition"):
            await rig.client.delete(CONFIG_MAP, "a", "default", resource_version="1")

    with_server(script)


def test_an_unbound_pod_goes_at_once() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(POD, pod())
        assert (await rig.client.delete(POD, "p", "default"))["kind"] == "Pod"
        assert await rig.client.find(POD, "p", "default") is None

    with_server(script)


def test_a_running_pod_stays_for_its_grace_and_goes_when_deleted_with_none() -> None:
    async def script(rig: Rig) -> None:
        await bound(rig)
        marked = await rig.client.delete(POD, "p", "default")
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
        longer = await rig.client.delete(POD, "p", "default", grace_seconds=60)
        assert longer["metadata"]["deletionGracePeriodSeconds"] == 30
        shorter = await rig.client.delete(POD, "p", "default", grace_seconds=5)
        assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
        await rig.client.patch(POD, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
        assert await rig.client.find(POD, "p", "default") is not None
        await rig.client.delete(POD, "p", "default", grace_seconds=0)
        assert await rig.client.find(POD, "p", "default") is None

    with_server(script)


def test_a_finished_pod_goes_at_once() -> None:
    async def script(rig: Rig) -> None:
        await bound(rig)
        await rig.client.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await rig.client.delete(POD, "p", "default")
        assert await rig.client.find(POD, "p", "default") is None

    with_server(script)


def test_a_collection_is_deleted_by_selector() -> None:
    async def script(rig: Rig) -> None:
        for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
            await rig.client.create(CONFIG_MAP, config_map(name, labels={"l": label}))
        await rig.send("DELETE", "/api/v1/namespaces/default/configmaps?labelSelector=l%3Dx")
        assert [each["metadata"]["name"] for each in await rig.client.find_all(CONFIG_MAP)] == ["b"]

    with_server(script)
