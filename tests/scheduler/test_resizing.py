"""Pods whose containers are being given another size."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.scheduler.podreading import PodReader, form_of
from hekla.scheduler.rows import Pod
from hekla.scheduler.trial.miniature import Miniature
from tests.scheduler.test_cases import PLAIN

INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


def read(status: dict[str, Any], reader: PodReader | None = None, *, cpu: str, memory: str = "1Gi") -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    spec = {"schedulerName": "volcano", "nodeName": "n1", "containers": [container]}
    obj = {"metadata": {"name": "p", "uid": "p"}, "spec": spec, "status": {"phase": "Running", **status}}
    return (reader or PodReader(("volcano",))).read(form_of(obj))


def status_of(allocated: str, in_force: str, memory: str = "1Gi") -> dict[str, Any]:
    resources = {"requests": {"cpu": in_force, "memory": memory}}
    return {"name": "main", "allocatedResources": {"cpu": allocated, "memory": memory}, "resources": resources}


@pytest.mark.parametrize(
    ("asked", "allocated", "in_force", "reported", "held"),
    [
        ("1", "2", "2", {}, 2000),
        ("1", "1", "2", {}, 2000),
        ("4", "2", "2", {}, 4000),
        ("4", "2", "2", DEFERRED, 4000),
        ("4", "2", "3", INFEASIBLE, 3000),
        ("4", "2", "2", {"resize": "Infeasible"}, 2000),
    ],
)
def test_a_container_holds_the_largest_of_what_it_asks_for_was_granted_and_has(
    asked: str, allocated: str, in_force: str, reported: dict[str, Any], held: int
) -> None:
    pod = read({"containerStatuses": [status_of(allocated, in_force)], **reported}, cpu=asked)
    assert pod.shape.request["cpu"] == held


def test_each_resource_is_looked_at_by_itself() -> None:
    pod = read({"containerStatuses": [status_of("2", "2", memory="1Gi")]}, cpu="1", memory="3Gi")
    assert pod.shape.request == {"cpu": 2000, "memory": 3 << 30, "pods": 1}


def test_a_pod_that_has_the_size_it_asks_for_is_of_the_shape_of_its_template() -> None:
    reader = PodReader(("volcano",))
    plain = read({}, reader, cpu="1")
    assert read({"containerStatuses": [status_of("1", "1")]}, reader, cpu="1").shape is plain.shape
    assert read({"containerStatuses": [{"name": "main", "ready": True}]}, reader, cpu="1").shape is plain.shape
    assert read({**INFEASIBLE, "containerStatuses": [{"name": "main"}]}, reader, cpu="1").shape is plain.shape


def test_sidecars_are_resized_like_the_others() -> None:
    sidecar = {"name": "main", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    spec = {"nodeName": "n1", "initContainers": [sidecar], "containers": [{"name": "app"}]}
    status = {"phase": "Running", "initContainerStatuses": [status_of("2", "2")]}
    pod = PodReader(("volcano",)).read(form_of({"metadata": {"name": "p"}, "spec": spec, "status": status}))
    assert pod.shape.request["cpu"] == 2000


def test_what_a_shrinking_pod_gives_up_is_free_when_it_has_done_so() -> None:
    world = Miniature(PLAIN)
    world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 4}]})
    world.add({"groups": [{"name": "a", "phase": "Running", "cpu": 1, "pods": 1, "node": "n1"}]})
    world.add({"groups": [{"name": "b", "cpu": 2, "pods": 1}]})
    status = world.objects["Pod", "a-t-0"]["status"]
    status["containerStatuses"] = [{"name": "main", "allocatedResources": {"cpu": "3"}}]
    world.settle()
    assert world.message_of("b-t-0") == "0/1 nodes are unavailable: 1 Insufficient cpu."
    status["containerStatuses"] = [{"name": "main", "allocatedResources": {"cpu": "1"}}]
    world.settle()
    assert world.node_of("b-t-0") == "n1"
