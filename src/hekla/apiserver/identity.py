"""What the server alone writes into `metadata`."""

from __future__ import annotations

import random
from datetime import datetime

from hekla.api.kinds import Obj
from hekla.api.meta import timestamp
from hekla.apiserver.resource import Resource

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_UIDS_AT_ONCE = 64
_VARIANTS = "89ab"
_GENERATED_MOST = 63 - 5
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_EMPTY_DROPPED = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields")
_COUNTED_GROUPS = frozenset(
    {
        "apps", "batch", "networking.k8s.io", "policy", "apiextensions.k8s.io", "admissionregistration.k8s.io",
        "scheduling.k8s.io", "discovery.k8s.io",
    }
)  # fmt: skip


class Uids:
    """Random uids, drawn many at a time: asking the system for each one costs more than the rest of a write."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._drawn: list[str] = []

    def next(self) -> str:
        if not self._drawn:
            digits = f"{self._rng.getrandbits(128 * _UIDS_AT_ONCE):0{32 * _UIDS_AT_ONCE}x}"
            self._drawn = [_uid(digits[at : at + 32]) for at in range(0, len(digits), 32)]
        return self._drawn.pop()


def _uid(digits: str) -> str:
    """Version 4, of the usual variant: 122 of the bits are random."""
    variant = _VARIANTS[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def random_suffix(rng: random.Random) -> str:
    """What makes a generated name the only one of its kind: no vowels, so no words."""
    return "".join(rng.choices(_SUFFIX_LETTERS, k=5))


def prepare_metadata(
    obj: Obj, resource: Resource, namespace: str, *, now: datetime, rng: random.Random, uids: Uids
) -> None:
    """For an object about to be created."""
    metadata = obj["metadata"]
    for field in ("selfLink", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(field, None)
    drop_empty(metadata)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"][:_GENERATED_MOST] + random_suffix(rng)
    if not metadata.get("name") and resource.storage == "/limitranges":
        # parity: the only kind that needs no name.
        metadata["name"] = uids.next()
    if resource.kind.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = uids.next()
    metadata["creationTimestamp"] = timestamp(now)
    if counts_generations(resource):
        metadata["generation"] = 1


def carry_metadata(new: Obj, old: Obj) -> None:
    """What an update cannot change is taken over from the object as it is."""
    metadata, before = new["metadata"], old["metadata"]
    metadata.pop("selfLink", None)
    for field in _SERVER_OWNED:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    for field in ("name", "namespace"):
        if field in before:
            metadata[field] = before[field]
    drop_empty(metadata)


def drop_empty(metadata: Obj) -> None:
    for field in _EMPTY_DROPPED:
        if field in metadata and not metadata[field]:
            del metadata[field]


def drop_repeated_owners(metadata: Obj) -> None:
    owners = metadata.get("ownerReferences")
    if owners is not None and len(owners) > 1:
        metadata["ownerReferences"] = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]


def counts_generations(resource: Resource) -> bool:
    return resource.is_custom or resource.kind.group in _COUNTED_GROUPS or resource.storage == "/pods"


def bump_generation(new: Obj, old: Obj, resource: Resource) -> None:
    """One more when what the user wants has changed: everything but metadata and a status of its own."""
    if not counts_generations(resource):
        return
    apart = ("metadata", "status") if resource.has_status or not resource.is_custom else ("metadata",)
    if any(new.get(field) != old.get(field) for field in {**new, **old} if field not in apart):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1
