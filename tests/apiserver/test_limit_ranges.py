"""Pods and claims of a namespace ask for what its LimitRanges let them, and get what they say where they are silent."""

from __future__ import annotations

import pytest

from hekla.api.kinds import LIMIT_RANGE, PERSISTENT_VOLUME_CLAIM, POD, Obj, kind_of
from hekla.errors import Forbidden
from tests.apiserver.limit_range_cases import CASES, NOTE, Case, limit_range, of, shape
from tests.apiserver.quota_cases import claim, pod, quota, tell
from tests.apiserver.rig import Rig, with_server

HERE = "default"


def here(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": HERE}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_asked_for_is_completed_or_refused(case: Case) -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(LIMIT_RANGE, here(limit_range(case.limits)))
        assert await tell(rig.client, case.obj, HERE) == case.told
        if not case.told:
            kind = kind_of(case.obj)
            assert kind is not None
            made = await rig.client.get(kind, case.obj["metadata"]["name"], HERE)
            assert shape(made) == (case.note, case.resources)

    with_server(script)


def test_a_range_holds_in_its_namespace_while_it_is_there() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(LIMIT_RANGE, here(limit_range(of("Pod", max={"cpu": "1"}))))
        assert await tell(rig.client, pod("p"), HERE) != ""
        assert await tell(rig.client, pod("p"), "kube-system") == ""
        await rig.client.delete(LIMIT_RANGE, "r", HERE)
        assert await tell(rig.client, pod("p"), HERE) == ""

    with_server(script)


def test_what_a_range_gives_counts_for_the_class_of_a_pod_and_for_its_quota() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(LIMIT_RANGE, here(limit_range(of("Container", default={"cpu": "1", "memory": "1Gi"}))))
        await tell(rig.client, quota({"limits.cpu": "1"}), HERE)
        made = await rig.client.create(POD, here(pod("p")))
        assert made["status"]["qosClass"] == "Guaranteed"
        assert (await tell(rig.client, pod("q"), HERE)).startswith("exceeded quota: q, requested: limits.cpu=1")

    with_server(script)


def test_of_several_ranges_all_hold_and_the_last_to_give_is_noted() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(LIMIT_RANGE, here(limit_range(of("Container", default={"cpu": "1"}), "a")))
        await rig.client.create(LIMIT_RANGE, here(limit_range(of("Container", default={"memory": "1Gi"}), "b")))
        made = await rig.client.create(POD, here(pod("p")))
        given = {"cpu": "1", "memory": "1Gi"}
        assert made["spec"]["containers"][0]["resources"] == {"limits": given, "requests": given}
        note = "LimitRanger plugin set: memory request for container main; memory limit for container main"
        assert made["metadata"]["annotations"][NOTE] == note

    with_server(script)


def test_what_was_there_before_is_left_alone_but_a_claim_that_grows_is_not() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(POD, here(pod("p", {"cpu": "5"})))
        await rig.client.create(PERSISTENT_VOLUME_CLAIM, here(claim("c", "1Gi")))
        await rig.client.create(LIMIT_RANGE, here(limit_range(of("Pod", max={"cpu": "1"}))))
        wide = of("PersistentVolumeClaim", max={"storage": "2Gi"})
        await rig.client.create(LIMIT_RANGE, here(limit_range(wide, "s")))
        await rig.client.patch(POD, "p", {"metadata": {"labels": {"a": "b"}}}, HERE)
        await rig.client.patch(PERSISTENT_VOLUME_CLAIM, "c", {"metadata": {"labels": {"a": "b"}}}, HERE)
        more = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
        with pytest.raises(Forbidden, match="maximum storage usage per PersistentVolumeClaim is 2Gi"):
            await rig.client.patch(PERSISTENT_VOLUME_CLAIM, "c", more, HERE)

    with_server(script)


def test_nothing_keeps_a_claim_that_is_to_go() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(PERSISTENT_VOLUME_CLAIM, here(claim("c", "5Gi")))
        small = of("PersistentVolumeClaim", max={"storage": "2Gi"})
        await rig.client.create(LIMIT_RANGE, here(limit_range(small)))
        await rig.client.delete(PERSISTENT_VOLUME_CLAIM, "c", HERE)
        await rig.client.patch(PERSISTENT_VOLUME_CLAIM, "c", {"metadata": {"finalizers": []}}, HERE)
        assert await rig.client.find(PERSISTENT_VOLUME_CLAIM, "c", HERE) is None

    with_server(script)
