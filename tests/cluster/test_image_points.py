"""Nodes that have a pod's images already get the very points that kube-scheduler says it gives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import uvloop

from hekla.api import kinds
from hekla.api.kinds import Obj
from hekla.client.kubeconfig import client_from_files
from hekla.scheduler.cache import Cache
from hekla.scheduler.session import Session
from hekla.scheduler.trial.objects import group_object, node_object, queue_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.scene import running, wipe
from tests.eventually import until
from tests.scheduler.replay import NAMESPACE

pytestmark = pytest.mark.cluster

MEBIBYTE = 1024 * 1024
TOOL, MODEL, DATA, SMALL = "registry.example:5000/tool:latest", "docker.io/library/model:v2", "data:1", "small:1"
SIZES = {TOOL: 200 * MEBIBYTE, MODEL: 3000 * MEBIBYTE, DATA: 701 * MEBIBYTE + 12345, SMALL: 30 * MEBIBYTE}
NODES = {"n0": [TOOL, DATA], "n1": [TOOL, MODEL], "n2": [TOOL, SMALL], "n3": [], "n4": [TOOL, DATA, MODEL, SMALL]}
PODS: dict[str, tuple[list[str], list[str], list[str]]] = {  # images of containers, of those before them, of volumes
    "one": ([DATA], [], []),
    "huge": ([MODEL], [], []),
    "untagged": (["registry.example:5000/tool"], [], []),
    "by-digest": ([f"{DATA}@sha256:0"], [], []),
    "of-another-tag": (["data:2"], [], []),
    "too-small": ([SMALL], [], []),
    "two": ([TOOL, MODEL], [], []),
    "twice": ([MODEL, MODEL], [], []),
    "with-a-starter": ([DATA], [MODEL], []),
    "with-a-volume": ([TOOL], [], [DATA]),
    "with-all": ([TOOL, DATA], [SMALL, MODEL], ["unknown"]),
}


def test_the_points_are_those_of_kube_scheduler(bare_plane: ControlPlane, tmp_path: Path) -> None:
    theirs, ours = uvloop.run(judged_by_both(bare_plane, tmp_path))
    assert ours == theirs
    assert len({tuple(points.values()) for points in ours.values()}) > len(PODS) // 2, "too much is alike"


Points = dict[str, dict[str, int]]  # by pod and node


async def judged_by_both(plane: ControlPlane, directory: Path) -> tuple[Points, Points]:
    async with client_from_files([plane.kubeconfig]) as client:
        await wipe(client)
        for name, images in NODES.items():
            node = node_object({"name": name, "cpu": 100, "memory": "100Gi", "pods": 100})
            node["status"]["images"] = [
                {"names": [f"{image}@sha256:0", image], "sizeBytes": SIZES[image]} for image in images
            ]
            await client.update_status(kinds.NODE, {**await client.create(kinds.NODE, node), "status": node["status"]})
        pods = [await client.create(kinds.POD, pod_with(name, *images)) for name, images in PODS.items()]
        nodes = (await client.list(kinds.NODE)).items
        with running(plane, "default-scheduler", directory, "--v=10") as log:
            await until(lambda: has_said(log, len(PODS) * len(NODES)))
            return points_in(log), our_points(nodes, pods)


def pod_with(name: str, images: list[str], before: list[str], mounted: list[str]) -> Obj:
    spec = {
        "containers": [{"name": f"c{number}", "image": image} for number, image in enumerate(images)],
        "initContainers": [{"name": f"b{number}", "image": image} for number, image in enumerate(before)],
        "volumes": [{"name": f"v{number}", "image": {"reference": image}} for number, image in enumerate(mounted)],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


SAID = re.compile(rf'pod="{NAMESPACE}/([^"]+)" plugin="ImageLocality" node="([^"]+)" score=(\d+)')


async def has_said(log: Path, often: int) -> bool:
    return len(SAID.findall(log.read_text())) == often


def points_in(log: Path) -> Points:
    said = {(pod, node): int(points) for pod, node, points in SAID.findall(log.read_text())}
    return {pod: {node: said[pod, node] for node in NODES} for pod in PODS}


def our_points(nodes: list[Obj], pods: list[Obj]) -> Points:
    cache = Cache()
    cache.put_queue(queue_object({"name": "default"}))
    for node in nodes:
        cache.put_node(node)
    for pod in pods:
        name = pod["metadata"]["name"]
        group = group_object({"name": name})
        group["metadata"]["namespace"] = NAMESPACE
        cache.put_group(group)
        metadata = {**pod["metadata"], "annotations": {"scheduling.k8s.io/group-name": name}}
        cache.put_pod({"metadata": metadata, "spec": {**pod["spec"], "schedulerName": "volcano"}})
    session = Session(cache.snapshot())
    found = {}
    for state in session.active:
        number = session.class_of(state, 0).images
        points = session.images.points(number).tolist() if number >= 0 else [0] * len(NODES)
        found[state.group.row.key.name] = dict(zip(NODES, points))
    return {pod: found[pod] for pod in PODS}
