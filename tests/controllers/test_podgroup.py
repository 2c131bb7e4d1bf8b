from __future__ import annotations

from typing import Any

import pytest

from hekla.api.kinds import POD, POD_GROUP, REPLICA_SET
from hekla.api.meta import annotations_of, name_of, owner_reference, uid_of
from hekla.controllers.podgroup import build_group, is_current
from tests import make
from tests.controllers.bench import Bench, on_bench

GPU = {"containers": [make.container(resources={"requests": {"nvidia.com/gpu": "1"}})]}


def test_pods_of_one_owner_share_a_group_of_the_size_the_owner_asks_for() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "U", "controller": True}
    pod = make.pod("p", spec=GPU, ownerReferences=[owner])
    group = build_group(pod, {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y", "other": "z"})
    assert group["metadata"]["name"] == "podgroup-U"
    assert group["metadata"]["ownerReferences"] == [owner]
    assert group["metadata"]["annotations"] == {"volcano.sh/x": "y"}
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"]["nvidia.com/gpu"] == "2"
    assert group["status"] == {"phase": "Pending"}


def test_a_group_that_asks_for_nobody_has_no_minimum() -> None:
    group = build_group(make.pod("p", spec=GPU), {"scheduling.volcano.sh/group-min-member": "0"})
    assert "minMember" not in group["spec"]


@pytest.mark.parametrize(
    ("text", "asked"), [("+2", 2), ("007", 7), ("-0", None), ("-1", 1), ("2.0", 1), (" 2", 1), ("1_0", 1), ("", 1)]
)
def test_a_groups_size_is_read_as_go_reads_numbers(text: str, asked: int | None) -> None:
    group = build_group(make.pod("p", spec=GPU), {"scheduling.volcano.sh/group-min-member": text})
    assert group["spec"].get("minMember") == asked


@pytest.mark.parametrize(("text", "tier"), [("+2", 2), ("0", 0), ("two", None), ("", None)])
def test_a_tier_that_is_no_number_is_none(text: str, tier: int | None) -> None:
    group = build_group(make.pod("p", annotations={"volcano.sh/network-topology-highest-tier": text}), {})
    assert group["spec"]["networkTopology"] == {
        "mode": "hard",
        **({} if tier is None else {"highestTierAllowed": tier}),
    }


def test_topology_wishes_are_read_from_the_pod() -> None:
    annotations = {"volcano.sh/network-topology-mode": "SOFT", "volcano.sh/network-topology-highest-tier": "2"}
    group = build_group(make.pod("p", annotations=annotations), {})
    assert group["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}


def test_a_bare_pod_of_our_scheduler_gets_a_group_and_others_do_not() -> None:
    async def script(bench: Bench) -> None:
        for name, scheduler in (("ours", "volcano"), ("theirs", "default-scheduler")):
            spec = {"schedulerName": scheduler, "containers": [make.container()]}
            await bench.client.create(
                POD,
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec},
            )
        await bench.settle()
        ours = await bench.client.get(POD, "ours", "default")
        theirs = await bench.client.get(POD, "theirs", "default")
        (group,) = await bench.client.find_all(POD_GROUP)
        assert name_of(group) == f"podgroup-{uid_of(ours)}"
        assert annotations_of(ours)["scheduling.k8s.io/group-name"] == name_of(group)
        assert "scheduling.k8s.io/group-name" not in annotations_of(theirs)

    on_bench(script)


async def replica_set(bench: Bench, **annotations: str) -> dict[str, Any]:
    names = {f"scheduling.volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    labels = {"app": "x"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [make.container()]}},
    }
    meta = {"name": "rs", "namespace": "default", "annotations": names}
    return await bench.client.create(
        REPLICA_SET, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    )


async def member(bench: Bench, name: str, owner: dict[str, Any], cpu: str, **fields: Any) -> None:
    container = make.container(resources={"requests": {"cpu": cpu}})
    meta = {"name": name, "namespace": "default", "ownerReferences": [owner_reference(owner, REPLICA_SET)]}
    spec = {"schedulerName": "volcano", "containers": [container], **fields}
    await bench.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def test_a_changed_workload_brings_its_group_up_to_date_with_its_next_pod() -> None:
    async def script(bench: Bench) -> None:
        owner = await replica_set(bench, group_min_member="1")
        await member(bench, "first", owner, "1")
        await bench.settle()
        (group,) = await bench.client.find_all(POD_GROUP)
        assert (group["spec"]["minMember"], group["spec"]["minResources"]["cpu"]) == (1, "1")
        changed = {"metadata": {"annotations": {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y"}}}
        await bench.client.patch(REPLICA_SET, "rs", changed, "default")
        await member(bench, "second", owner, "3")
        await bench.settle()
        (after,) = await bench.client.find_all(POD_GROUP)
        assert uid_of(after) == uid_of(group)
        assert (after["spec"]["minMember"], after["spec"]["minResources"]["cpu"]) == (2, "6")
        assert annotations_of(after) == {"volcano.sh/x": "y"}

    on_bench(script)


@pytest.mark.parametrize(("replicas", "stays"), [(0, False), (1, True)])
def test_the_group_of_a_workload_scaled_to_nothing_goes_with_its_last_pod(replicas: int, stays: bool) -> None:
    async def script(bench: Bench) -> None:
        owner = await replica_set(bench)
        await member(bench, "first", owner, "1")
        await member(bench, "second", owner, "1")
        await bench.settle()
        await bench.client.patch(REPLICA_SET, "rs", {"spec": {"replicas": replicas}}, "default")
        await bench.client.delete(POD, "first", "default")
        await bench.settle()
        assert len(await bench.client.find_all(POD_GROUP)) == 1
        await bench.client.delete(POD, "second", "default")
        await bench.settle()
        assert len(await bench.client.find_all(POD_GROUP)) == int(stays)

    on_bench(script)


@pytest.mark.parametrize("there_before", [False, True])
def test_a_waiting_pod_whose_group_has_gone_gets_a_new_one(there_before: bool) -> None:
    async def script(bench: Bench) -> None:
        owner = await replica_set(bench)
        await member(bench, "first", owner, "1", schedulingGates=[{"name": "example.com/wait"}])
        await bench.settle()
        (group,) = await bench.client.find_all(POD_GROUP)
        if there_before:
            await bench.stop_controllers()
        await bench.client.delete(POD_GROUP, name_of(group), "default")
        if there_before:
            bench.start_controllers()
        await bench.settle()
        (after,) = await bench.client.find_all(POD_GROUP)
        assert name_of(after) == name_of(group)
        assert uid_of(after) != uid_of(group)

    on_bench(script)


def test_a_pod_of_a_stateful_sets_earlier_revision_changes_nothing() -> None:
    owner = {"status": {"updateRevision": "b"}}
    assert is_current(make.pod("p", labels={"controller-revision-hash": "b"}), owner)
    assert not is_current(make.pod("p", labels={"controller-revision-hash": "a"}), owner)
    assert is_current(make.pod("p"), {"status": {}})
