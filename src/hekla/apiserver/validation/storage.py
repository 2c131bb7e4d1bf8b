"""PersistentVolumes and StorageClasses; what a claim has to say is in `hekla.api.claim_rules`."""

from __future__ import annotations

import json
from typing import Any

from hekla.api.claim_rules import ACCESS_MODES, VOLUME_MODES
from hekla.api.field import Problem, duplicate, forbidden, invalid, required, unsupported
from hekla.api.field_rules import (
    choice_or_absent_problems,
    choice_problems,
    qualified_field_problems,
    subdomain_field_problems,
)
from hekla.api.kinds import Obj
from hekla.api.pod_rules.placement import node_selector_problems
from hekla.api.pod_rules.volumes import source_problems
from hekla.api.quantity import parse

_RECLAIMED = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
# All that a volume says beside where its content is.
_NO_SOURCES = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip


def validate_volume(volume: Obj) -> list[Problem]:
    spec = volume.get("spec") or {}
    modes = spec.get("accessModes") or []
    problems = [] if modes else [required("spec.accessModes")]
    problems += [unsupported("spec.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    problems += _capacity_problems(spec.get("capacity"))
    problems += choice_problems(spec, "persistentVolumeReclaimPolicy", "spec", _RECLAIMED)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        problems += _affinity_problems(affinity, "spec.nodeAffinity")
    sources = {field: content for field, content in spec.items() if field not in _NO_SOURCES}
    problems += source_problems(sources, "spec")
    problems += _own_source_problems(spec)
    if not sources:
        problems.append(required("spec", "must specify a volume type"))
    if spec.get("storageClassName"):
        problems += subdomain_field_problems(spec["storageClassName"], "spec.storageClassName")
    return problems + choice_or_absent_problems(spec, "volumeMode", "spec", VOLUME_MODES)


def _own_source_problems(spec: Obj) -> list[Problem]:
    """What is asked of a volume that stands alone beyond what is asked of one in a pod."""
    problems: list[Problem] = []
    if "local" in spec:
        if not spec["local"].get("path"):
            problems.append(required("spec.local.path"))
        if "nodeAffinity" not in spec:
            problems.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    driver = spec.get("csi") or {}
    if "csi" in spec and not driver.get("volumeHandle"):
        problems.append(required("spec.csi.volumeHandle"))
    if driver.get("driver"):
        problems += subdomain_field_problems(driver["driver"].lower(), "spec.csi.driver")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycled and (spec.get("hostPath") or {}).get("path") == "/":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        problems.append(forbidden("spec.persistentVolumeReclaimPolicy", why))
    return problems


def _capacity_problems(capacity: Any) -> list[Problem]:
    path = "spec.capacity"
    problems = [] if capacity else [required(path)]
    if not capacity or "storage" not in capacity or len(capacity) > 1:
        problems.append(unsupported(path, capacity and dict(sorted(capacity.items())), ("storage",)))
    for name, amount in (capacity or {}).items():
        if parse(amount) < 0:
            problems.append(invalid(f"{path}[{name}]", int(parse(amount)), "must be a valid resource quantity"))
        if parse(amount) <= 0:
            problems.append(invalid(f"{path}[{name}]", amount, "must be greater than zero"))
    return problems


def _affinity_problems(affinity: Obj, path: str) -> list[Problem]:
    needed = affinity.get("required")
    if needed is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return node_selector_problems(needed, f"{path}.required")


def validate_storage_class(storage_class: Obj) -> list[Problem]:
    provisioner = (storage_class.get("provisioner") or "").lower()
    problems = qualified_field_problems(provisioner, "provisioner") if provisioner else [required("provisioner")]
    if storage_class.get("reclaimPolicy") and storage_class["reclaimPolicy"] not in ("Delete", "Retain"):
        problems.append(unsupported("reclaimPolicy", storage_class["reclaimPolicy"], ("Delete", "Retain")))
    if storage_class["volumeBindingMode"] not in _BINDING:
        problems.append(unsupported("volumeBindingMode", storage_class["volumeBindingMode"], _BINDING))
    return problems + _topology_problems(storage_class.get("allowedTopologies") or ())


def _topology_problems(terms: list[Obj] | tuple[()]) -> list[Problem]:
    problems: list[Problem] = []
    # parity: a term that names nothing is told as one that was there before.
    seen: list[dict[str, set[str]]] = [{}]
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        places: dict[str, set[str]] = {}
        for position, one in enumerate(term.get("matchLabelExpressions") or ()):
            where, key, values = f"{path}[{position}]", one.get("key") or "", one.get("values") or []
            problems += _expression_problems(key, values, where)
            if key in places:
                problems.append(duplicate(f"{where}.key", json.dumps(key)))
            places[key] = set(values)
        if places in seen:
            problems.append(duplicate(path, '""'))
        seen.append(places)
    return problems


def _expression_problems(key: str, values: list[str], path: str) -> list[Problem]:
    problems = [] if values else [required(f"{path}.values")]
    problems += [
        duplicate(f"{path}.values[{index}]", json.dumps(value))
        for index, value in enumerate(values)
        if value in values[:index]
    ]
    return problems + qualified_field_problems(key, f"{path}.key")
