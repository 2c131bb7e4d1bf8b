"""Claims that wait for their first pod, on a real kube-apiserver with kube-controller-manager's volume controller."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from hekla.api.kinds import Obj
from hekla.scheduler.trial.storage_objects import SELECTED_NODE, claim_object, class_object, volume_object
from tests.cluster.components import start_components
from tests.cluster.control_plane import ControlPlane
from tests.cluster.test_install import kubectl, make_accounts, refusals
from tests.eventually import eventually

pytestmark = pytest.mark.cluster

NODES = ("--simulated-nodes", "2", "--node-cpu", "4", "--node-memory", "8Gi")
DISKS = "disks.example.com"


@pytest.fixture(scope="module")
def cluster(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With the rights that `hekla install` gives; nothing may be forbidden."""
    directory = tmp_path_factory.mktemp("hekla")
    accounts = make_accounts(own_plane, directory)
    before = refusals(own_plane)
    with start_components(own_plane, directory, accounts=accounts, node=NODES):
        yield own_plane
        assert refusals(own_plane) == before


def test_a_gang_gets_local_volumes_and_the_nodes_they_are_on(cluster: ControlPlane) -> None:
    names = node_names(cluster)
    apply(
        cluster,
        class_object("local"),
        volume_object("large", "9Gi", names[1], of="local"),
        volume_object("fitting", "5Gi", names[1], of="local"),
        volume_object("small", "1Gi", names[0], of="local"),
        claim_object("local", "4Gi", of="local"),
        job("local"),
    )
    kubectl(cluster, "wait", "pvc/local", "--for=jsonpath={.status.phase}=Bound", "--timeout=150s")
    assert get(cluster, "pvc/local")["spec"]["volumeName"] == "fitting"
    eventually(lambda: nodes_of(cluster, "local") == [names[1]] * 2, what="both pods are where the volume is")


def test_a_gang_waits_for_the_volume_that_is_made_for_its_node(cluster: ControlPlane) -> None:
    apply(cluster, class_object("lazy", DISKS), claim_object("made"), job("made"))
    node = eventually(lambda: told_node(cluster), what="the claim knows its node")
    assert nodes_of(cluster, "made") == ["", ""]
    # What the provisioner of a driver does.
    volume = volume_object("made-disk", node=node, driver=DISKS)
    owner = get(cluster, "pvc/made")["metadata"]
    volume["spec"]["claimRef"] = {key: owner[key] for key in ("namespace", "name", "uid")}
    apply(cluster, volume)
    eventually(lambda: nodes_of(cluster, "made") == [node] * 2, what="both pods are where the volume is")


def job(name: str) -> Obj:
    """A gang of two that share the claim of this name."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "volumes": volumes}}
    task = {"name": "t", "replicas": 2, "template": template}
    spec = {"minAvailable": 2, "schedulerName": "volcano", "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def apply(cluster: ControlPlane, *objects: Obj) -> None:
    for obj in objects:
        version = "storage.k8s.io/v1" if obj["kind"] == "StorageClass" else "v1"
        obj["metadata"].pop("namespace", None)
        kubectl(cluster, "apply", "-f", "-", stdin=json.dumps({"apiVersion": version, **obj}))


def get(cluster: ControlPlane, what: str) -> Obj:
    found: Obj = json.loads(kubectl(cluster, "get", what, "-o", "json"))
    return found


def told_node(cluster: ControlPlane) -> str:
    return str((get(cluster, "pvc/made")["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "")


def node_names(cluster: ControlPlane) -> list[str]:
    return eventually(lambda: _two([node["metadata"]["name"] for node in get(cluster, "nodes")["items"]]))


def _two(names: list[str]) -> list[str]:
    return sorted(names) if len(names) == 2 else []


def nodes_of(cluster: ControlPlane, name: str) -> list[str]:
    pods = json.loads(kubectl(cluster, "get", "pods", "-l", f"volcano.sh/job-name={name}", "-o", "json"))["items"]
    return [pod["spec"].get("nodeName", "") for pod in pods]
