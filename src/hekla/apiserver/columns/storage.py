"""Volumes, claims and where they come from."""

from __future__ import annotations

from datetime import datetime

from hekla.api.kinds import Obj
from hekla.apiserver.columns.cells import AGE, NAME, UNSET, at, text, whole_number

_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _phase(obj: Obj, now: datetime) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str((obj.get("status") or {}).get("phase", ""))


def _capacity(claim: Obj, now: datetime) -> str:
    # Of a claim that has no volume yet, nothing is known.
    return str(at("status", "capacity", "storage", default="")(claim, now)) if _volume(claim, now) else ""


def _volume(claim: Obj, now: datetime) -> str:
    return str(at("spec", "volumeName", default="")(claim, now))


def _modes_of_claim(claim: Obj, now: datetime) -> str:
    return _modes((claim.get("status") or {}).get("accessModes")) if _volume(claim, now) else ""


def _modes_of_volume(volume: Obj, now: datetime) -> str:
    return _modes((volume.get("spec") or {}).get("accessModes"))


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _claim(volume: Obj, now: datetime) -> str:
    claim = (volume.get("spec") or {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class_name(class_: Obj, now: datetime) -> str:
    marked = (class_["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{class_['metadata']['name']} (default)" if marked else str(class_["metadata"]["name"])


_CLASS = text("StorageClass", at("spec", "storageClassName", default=""))
_ATTRIBUTES = text("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET))
_MODE = text("VolumeMode", at("spec", "volumeMode", default=UNSET), 1)

STORAGE = {
    "/persistentvolumeclaims": [
        NAME,
        text("Status", _phase),
        text("Volume", _volume),
        text("Capacity", _capacity),
        text("Access Modes", _modes_of_claim),
        _CLASS,
        _ATTRIBUTES,
        AGE,
        _MODE,
    ],
    "/persistentvolumes": [
        NAME,
        text("Capacity", at("spec", "capacity", "storage", default="")),
        text("Access Modes", _modes_of_volume),
        text("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy", default="")),
        text("Status", _phase),
        text("Claim", _claim),
        _CLASS,
        _ATTRIBUTES,
        text("Reason", at("status", "reason", default="")),
        AGE,
        _MODE,
    ],
    "storage.k8s.io/storageclasses": [
        text("Name", _class_name),
        text("Provisioner", at("provisioner", default="")),
        text("ReclaimPolicy", at("reclaimPolicy", default="Delete")),
        text("VolumeBindingMode", at("volumeBindingMode", default="Immediate")),
        ("AllowVolumeExpansion", "string", 0, at("allowVolumeExpansion", default=False)),
        AGE,
    ],
    "storage.k8s.io/csinodes": [
        NAME,
        whole_number("Drivers", lambda obj, now: len((obj.get("spec") or {}).get("drivers") or ())),
        AGE,
    ],
}
