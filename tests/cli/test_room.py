"""Whether the whole of a cluster is large enough for a job, whatever else runs on it."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.cli.room import lack_of_room
from hekla.scheduler.config import default_config
from tests import make

Obj = dict[str, Any]

BUSY = [
    make.pod("other", "Running", spec={"nodeName": name, "containers": [make.container(resources=make.resources("4"))]})
    for name in ("a", "b")
]


def gang(job: Obj, size: int, cpu: str) -> list[Obj]:
    """Its PodGroup and pods, as they wait."""
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": "demo", "uid": "uid-demo", "controller": True}
    group = make.pod_group("demo-uid-demo", size, "Inqueue", minResources={"cpu": str(size * int(cpu))})
    spec = {"schedulerName": "volcano", "containers": [make.container(resources=make.resources(cpu))]}
    annotations = {"scheduling.k8s.io/group-name": "demo-uid-demo"}
    pods = [make.pod(f"demo-{index}", spec=spec, annotations=annotations) for index in range(size)]
    for obj in (group, *pods):
        obj["metadata"]["ownerReferences"] = [owner]
    return [group, *pods]


@pytest.mark.parametrize(
    ("size", "cpu", "lacks"), [(1, "4", False), (2, "4", False), (1, "5", True), (3, "4", True), (8, "1", False)]
)
def test_what_others_hold_is_room_and_more_than_all_is_not(size: int, cpu: str, lacks: bool) -> None:
    job = make.job()
    cluster = [make.queue(), make.node("a"), make.node("b"), *BUSY, *gang(job, size, cpu)]
    lack = lack_of_room(cluster, job, default_config())
    assert ("cpu: " in lack) is lacks
    assert lacks or not lack


def test_a_gang_a_little_larger_than_the_cluster_that_was_not_let_in_lacks_room() -> None:
    """By less than the cluster is counted larger than it is."""
    job = make.job()
    group, *_ = gang(job, 9, "1")
    group["status"]["phase"] = "Pending"
    cluster = [make.queue(), make.node("a"), make.node("b"), *BUSY, group]
    assert lack_of_room(cluster, job, default_config()) == "cpu: 9 asked, 8 in the whole cluster"


@pytest.mark.parametrize("trouble", ["absent", "cordoned", "not ready"])
def test_a_node_that_may_come_back_is_waited_for(trouble: str) -> None:
    job, node = make.job(), make.node("a")
    if trouble == "cordoned":
        node["spec"]["unschedulable"] = True
    if trouble == "not ready":
        node["status"]["conditions"][0]["status"] = "Unknown"
    nodes = [] if trouble == "absent" else [node]
    assert lack_of_room([make.queue(), *nodes, *gang(job, 1, "64")], job, default_config()) == ""


def test_what_is_in_the_way_beside_the_room_may_be_cleared_away() -> None:
    job = make.job()
    choosy = gang(job, 1, "1")
    choosy[1]["spec"]["nodeSelector"] = {"disk": "fast"}
    assert lack_of_room([make.queue(), make.node("a"), *choosy], job, default_config()) == ""
    capped = make.queue(capability={"cpu": "2"})
    assert lack_of_room([capped, make.node("a"), *gang(job, 1, "4")], job, default_config()) == ""
