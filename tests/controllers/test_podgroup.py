from __future__ import annotations

from hekla.api.kinds import POD, POD_GROUP
from hekla.api.meta import annotations_of, name_of, uid_of
from hekla.controllers.podgroup import build_group
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
