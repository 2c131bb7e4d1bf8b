"""Claims, volumes and classes of storage: what the scheduler knows of them, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.meta import Key, annotations_of, is_deleting, key_of, labels_of, revision_of, uid_of
from hekla.api.quantity import parse
from hekla.api.selector import Operator, Requirement, Selector, label_selector_from
from hekla.scheduler.reading import read_term
from hekla.scheduler.rows import Term
from hekla.scheduler.zones import Zones, read_zones

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_WAITS_FOR_NODE = "WaitForFirstConsumer"
_NOBODY = ("", "kubernetes.io/no-provisioner")


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim: bound to a volume, or waiting for one."""

    key: Key
    uid: str
    volume: str
    bound: bool  # volume and claim know of each other
    storage_class: str
    size: Decimal
    modes: frozenset[str]
    block: bool
    selector: Selector | None
    node: str  # for which a volume is being made


@dataclass(frozen=True, slots=True)
class Volume:
    name: str
    terms: tuple[Term, ...] | None  # nodes from which it can be reached, None for all
    claim: Key | None  # whom it is meant for
    claim_uid: str
    storage_class: str
    size: Decimal
    modes: frozenset[str]
    block: bool
    labels: Mapping[str, str] = field(hash=False)
    zones: Zones
    driver: str  # whose limit it counts for
    handle: str
    leaving: bool
    revision: int = field(default=0, compare=False)

    def suits(self, claim: Claim) -> bool:
        """Whether it would do for the claim, were it free; where it can be reached from is another question."""
        return (
            self.storage_class == claim.storage_class
            and self.size >= claim.size
            and self.modes >= claim.modes
            and self.block == claim.block
            and (claim.selector is None or claim.selector.matches(self.labels))
            and not self.leaving
        )

    def is_meant_for(self, claim: Claim) -> bool:
        return self.claim == claim.key and self.claim_uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    waits_for_node: bool
    provisioner: str
    terms: tuple[Term, ...] | None  # nodes for which a volume can be made, None for all

    @property
    def makes_volumes(self) -> bool:
        return self.provisioner not in _NOBODY


@dataclass(frozen=True, slots=True)
class ClaimChoice:
    """What a claim that waited for a node is to get: a volume that is there, or one made for the node."""

    claim: Key
    volume: str  # empty: to be made
    node: str


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    claims: Mapping[Key, Claim]
    volumes: Mapping[str, Volume]
    classes: Mapping[str, StorageClass]
    limits: Mapping[str, Mapping[str, int]]  # by node and driver: how many volumes may be attached


def read_claim(obj: Obj) -> Claim:
    spec, annotations = obj.get("spec") or {}, annotations_of(obj)
    requests = (spec.get("resources") or {}).get("requests") or {}
    volume = str(spec.get("volumeName") or "")
    completed = _BIND_COMPLETED in annotations or (obj.get("status") or {}).get("phase") == "Bound"
    return Claim(
        key=key_of(obj),
        uid=uid_of(obj),
        volume=volume,
        bound=bool(volume) and completed,
        storage_class=annotations.get(_OLD_CLASS) or str(spec.get("storageClassName") or ""),
        size=parse(requests.get("storage") or 0),
        modes=frozenset(map(str, spec.get("accessModes") or ())),
        block=spec.get("volumeMode") == "Block",
        selector=label_selector_from(spec.get("selector")),
        node=annotations.get(SELECTED_NODE, ""),
    )


def read_volume(obj: Obj) -> Volume:
    spec = obj.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    owner, csi = spec.get("claimRef") or {}, spec.get("csi") or {}
    return Volume(
        name=obj["metadata"]["name"],
        terms=None if required is None else tuple(map(read_term, required.get("nodeSelectorTerms") or ())),
        claim=Key(str(owner.get("namespace") or ""), str(owner.get("name") or "")) if owner else None,
        claim_uid=str(owner.get("uid") or ""),
        storage_class=annotations_of(obj).get(_OLD_CLASS) or str(spec.get("storageClassName") or ""),
        size=parse((spec.get("capacity") or {}).get("storage") or 0),
        modes=frozenset(map(str, spec.get("accessModes") or ())),
        block=spec.get("volumeMode") == "Block",
        labels=labels_of(obj),
        zones=read_zones(labels_of(obj)),
        driver=str(csi.get("driver") or ""),
        handle=str(csi.get("volumeHandle") or ""),
        leaving=is_deleting(obj),
        revision=revision_of(obj),
    )


def read_storage_class(obj: Obj) -> StorageClass:
    topologies = obj.get("allowedTopologies")
    return StorageClass(
        waits_for_node=obj.get("volumeBindingMode") == _WAITS_FOR_NODE,
        provisioner=str(obj.get("provisioner") or ""),
        terms=tuple(map(_read_topology, topologies)) if topologies else None,
    )


def read_attach_limits(obj: Obj) -> dict[str, int]:
    """Of a CSINode: how many volumes of each driver may be attached, drivers without a limit left out."""
    counts = {
        str(driver.get("name") or ""): (driver.get("allocatable") or {}).get("count")
        for driver in (obj.get("spec") or {}).get("drivers") or ()
    }
    return {driver: int(count) for driver, count in counts.items() if count is not None}


def _read_topology(item: Mapping[str, Any]) -> Term:
    requirements = tuple(
        Requirement(str(each.get("key") or ""), Operator.IN, tuple(map(str, each.get("values") or ())))
        for each in item.get("matchLabelExpressions") or ()
    )
    return Term(Selector(requirements), Selector())
