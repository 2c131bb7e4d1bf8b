"""Classes, volumes and claims in the short shape of the cases, and what volume controllers make of choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hekla.api.kinds import Obj
from hekla.scheduler.storage import SELECTED_NODE, ClaimChoice

HOSTNAME = "kubernetes.io/hostname"


def storage_objects(given: dict[str, Any]) -> Iterator[Obj]:
    for name, storage_class in given.get("classes", {}).items():
        yield class_object(name, **storage_class)
    for volume in given.get("volumes", ()):
        yield volume_object(**volume)
    for claim in given.get("claims", ()):
        yield claim_object(**claim)
    for name, limits in given.get("limits", {}).items():
        drivers = [{"name": driver, "allocatable": {"count": count}} for driver, count in limits.items()]
        yield {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}


def class_object(
    name: str, provisioner: str = "kubernetes.io/no-provisioner", zones: Any = (), now: bool = False
) -> Obj:
    found: Obj = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
    found["volumeBindingMode"] = "Immediate" if now else "WaitForFirstConsumer"
    if zones:
        found["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}]
    return found


def volume_object(
    name: str,
    size: str = "1Gi",
    node: str = "",
    owner: str = "",
    driver: str = "",
    of: str = "lazy",
    labels: Any = None,
    **more: Any,
) -> Obj:
    spec: Obj = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": of, **more}
    if node:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if owner:
        spec["claimRef"] = {"namespace": "test", "name": owner}
    # A local volume has to say where it is.
    place = {"local" if node else "hostPath": {"path": f"/mnt/{name}"}}
    spec |= {"csi": {"driver": driver, "volumeHandle": name}} if driver else place
    return {"kind": "PersistentVolume", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def claim_object(name: str, size: str = "1Gi", of: str = "lazy", volume: str = "", node: str = "", **more: Any) -> Obj:
    spec: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    spec["storageClassName"] = of
    if volume:
        spec["volumeName"] = volume
    annotations = {SELECTED_NODE: node} if node else {}
    metadata = {"name": name, "namespace": "test", "annotations": annotations}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def settle_claim(objects: dict[tuple[str, str], Obj], choice: ClaimChoice) -> None:
    """What comes of a choice: the volume that was chosen is bound, or one is made where it was asked for."""
    claim = objects["PersistentVolumeClaim", choice.claim.name]
    volume = choice.volume or f"made-for-{choice.claim.name}"
    if not choice.volume:
        claim["metadata"]["annotations"][SELECTED_NODE] = choice.node
        driver = objects["StorageClass", claim["spec"]["storageClassName"]]["provisioner"]
        objects["PersistentVolume", volume] = volume_object(volume, node=choice.node, driver=driver)
    owner = objects["PersistentVolume", volume]["spec"].setdefault("claimRef", {"namespace": "test"})
    assert owner.setdefault("name", choice.claim.name) == choice.claim.name, f"{volume} was given away twice"
    claim["spec"]["volumeName"] = volume
    claim["status"] = {"phase": "Bound"}
