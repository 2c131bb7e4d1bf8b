"""What every object says of itself: its name, labels, annotations, finalizers and owners."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hekla.api.field import Problem, invalid, required, too_long
from hekla.api.field_rules import byte_count
from hekla.api.kinds import Kind, Obj
from hekla.api.names import (
    label_key_problems,
    label_problems,
    label_value_problems,
    path_segment_problems,
    subdomain_problems,
)

_ANNOTATION_BYTES = 256 * 1024
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_LABEL_NAMED = frozenset({"/namespaces", "/services"})
_PATH_NAMED = frozenset({"/events", "events.k8s.io/events", "policy/poddisruptionbudgets"})
_PATH_NAMED_GROUP = "rbac.authorization.k8s.io"


def validate_metadata(obj: Obj, kind: Kind) -> list[Problem]:
    metadata = obj["metadata"]
    name, prefix = metadata.get("name") or "", metadata.get("generateName")
    problems: list[Problem] = []
    faults: Sequence[str]
    if prefix:
        problems += _told("metadata.generateName", prefix, name_faults(_as_name(prefix), kind))
    if not name:
        return [*problems, required("metadata.name", "name or generateName is required")]
    problems += _told("metadata.name", name, name_faults(name, kind))
    for key, value in (metadata.get("labels") or {}).items():
        if faults := _key_faults(key):
            problems += _told("metadata.labels", key, faults)
        if faults := label_value_problems(value):
            problems += _told("metadata.labels", value, faults)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if faults := _key_faults(key.lower()):
            problems += _told("metadata.annotations", key, faults)
    if sum(byte_count(key) + byte_count(value) for key, value in annotations.items()) > _ANNOTATION_BYTES:
        problems.append(too_long("metadata.annotations", _ANNOTATION_BYTES))
    for finalizer in metadata.get("finalizers") or ():
        problems += _told("metadata.finalizers", finalizer, _key_faults(finalizer))
    return problems + _owner_problems(metadata.get("ownerReferences") or ())


def validate_finalizers(obj: Obj) -> list[Problem]:
    """What holds for Kubernetes' own kinds; definitions and what they define are free to name theirs."""
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{index}]", finalizer, why)
        for index, finalizer in enumerate(obj["metadata"].get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def name_faults(name: str, kind: Kind) -> list[str]:
    storage = f"{kind.group}/{kind.plural}"
    if kind.group == _PATH_NAMED_GROUP or storage in _PATH_NAMED:
        return path_segment_problems(name)
    return label_problems(name) if storage in _LABEL_NAMED else subdomain_problems(name)


def _as_name(prefix: str) -> str:
    """What is made of a prefix does not end with its dash."""
    # parity: what stands before the dash is not looked at, either.
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


@lru_cache(maxsize=4096)
def _key_faults(key: str) -> Sequence[str]:
    """The same few keys come with every object."""
    return tuple(label_key_problems(key))


def _told(field: str, value: str, faults: Sequence[str]) -> list[Problem]:
    return [invalid(field, value, why) for why in faults]


def _owner_problems(references: list[Obj] | tuple[()]) -> list[Problem]:
    path = "metadata.ownerReferences"
    problems: list[Problem] = []
    controllers: list[Obj] = []
    for reference in references:
        version = reference.get("apiVersion") or ""
        if not version or version.count("/") > 1:
            problems.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not reference.get(field):
                problems.append(invalid(f"{path}.{field}", "", "must not be empty"))
        if version == "v1" and reference.get("kind") == "Event":
            problems.append(invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
        if reference.get("controller"):
            controllers.append(reference)
    if len(controllers) > 1:
        names = " and ".join(f"{each.get('kind', '')}/{each.get('name', '')}" for each in controllers[:2])
        why = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
        problems.append(invalid(path, references, why))
    return problems
