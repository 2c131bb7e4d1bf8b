"""What is served: Kubernetes' own kinds, and those that CustomResourceDefinitions in the store describe."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from hekla.api.kinds import BUILT_IN_KINDS, CUSTOM_RESOURCE_DEFINITION, Kind, Obj
from hekla.apiserver.definitions import load_definitions
from hekla.apiserver.schema import ANYTHING, Node, compile_schema
from hekla.apiserver.store.following import Following
from hekla.apiserver.store.store import Store

DEFINITIONS_RESOURCE = f"{CUSTOM_RESOURCE_DEFINITION.group}/{CUSTOM_RESOURCE_DEFINITION.plural}"

_FIELDS: dict[str, tuple[str, ...]] = {
    "/pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "/events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    "/nodes": ("spec.unschedulable",),
    "/namespaces": ("status.phase",),
    "/secrets": ("type",),
    "/services": ("spec.clusterIP", "spec.type"),
    "batch/jobs": ("status.successful",),
}  # fmt: skip

_REMEMBERED_DEFINITIONS = 1024
_CREATED_ON_UPDATE = frozenset(
    {
        "/services", "/endpoints", "/events", "/limitranges", "coordination.k8s.io/leases",
        "rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings",
        "rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/clusterrolebindings",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Resource:
    """One kind as it is served. `definition` is the CustomResourceDefinition it comes from, if any."""

    kind: Kind
    definition: Obj | None = None
    version: Obj = field(default_factory=dict)

    @cached_property
    def storage(self) -> str:
        return f"{self.kind.group}/{self.kind.plural}"

    @property
    def is_custom(self) -> bool:
        return self.definition is not None

    @cached_property
    def has_status(self) -> bool:
        return "status" in self.kind.subresources

    @cached_property
    def list_kind(self) -> str:
        if self.definition is not None:
            return str(self.definition["spec"]["names"].get("listKind") or f"{self.kind.kind}List")
        return f"{self.kind.kind}List"

    @cached_property
    def schema(self) -> Node:
        if self.definition is not None:
            document = (self.version.get("schema") or {}).get("openAPIV3Schema")
            return compile_schema(document) if document else ANYTHING
        definitions = load_definitions()
        name = definitions.name_of(self.kind)
        return definitions.node(name) if name is not None else ANYTHING

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """What a field selector may name."""
        own = _FIELDS.get(self.storage, ())
        custom = tuple(each["jsonPath"].lstrip(".") for each in self.version.get("selectableFields") or ())
        return ("metadata.name", "metadata.namespace", *own, *custom)

    @property
    def creates_on_update(self) -> bool:
        # parity: of these kinds, PUT makes an object that is not there.
        return self.storage in _CREATED_ON_UPDATE

    @property
    def needs_revision_to_update(self) -> bool:
        return self.is_custom


class Registry:
    """The resources served now. Definitions are read from the store whenever they have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._built_in = {_place(kind): Resource(kind) for kind in BUILT_IN_KINDS}
        self._custom: dict[tuple[str, str, str], Resource] = {}
        self._definitions = Following(store, DEFINITIONS_RESOURCE)
        self._seen: tuple[int, ...] = ()

    @property
    def generation(self) -> tuple[int, ...]:
        """Changes whenever what is served changes."""
        self._refresh()
        return self._seen

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        built_in = self._built_in.get((group, version, plural))
        if built_in is not None:
            return built_in
        self._refresh()
        return self._custom.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Resource | None:
        return next(
            (each for each in self.all() if each.kind.api_version == api_version and each.kind.kind == kind), None
        )

    def all(self) -> list[Resource]:
        self._refresh()
        return [*self._built_in.values(), *self._custom.values()]

    def _refresh(self) -> None:
        anew, changed = self._definitions.look()
        if not (anew or changed):
            return
        entries = self._store.entries(DEFINITIONS_RESOURCE)
        self._seen = tuple(entry.revision for entry in entries)
        self._custom = {_place(each.kind): each for entry in entries for each in _resources(entry.value)}


def _place(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


@lru_cache(maxsize=_REMEMBERED_DEFINITIONS)
def _resources(value: bytes) -> tuple[Resource, ...]:
    """What a definition, as it is stored, has served. The same bytes keep their compiled schemas."""
    definition: Obj = msgspec.json.decode(value)
    return tuple(
        Resource(kind_from(definition, version), definition, version)
        for version in definition["spec"]["versions"]
        if version.get("served")
    )


def kind_from(definition: Obj, version: dict[str, Any]) -> Kind:
    spec = definition["spec"]
    names = spec["names"]
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        spec["scope"] == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(name for name in ("status", "scale") if name in (version.get("subresources") or {})),
        tuple(names.get("categories") or ()),
        names.get("singular") or names["kind"].lower(),
    )
