"""The CustomResourceDefinitions of Volcano's kinds, built from compact YAML.

One file a kind holds its printer columns and its schema; names, scope and subresources come from the table of kinds.
`x-hekla-type` in a schema stands for a whole type: one of ours from `fragments.yaml`, or, with a dotted name, one of
Kubernetes' own, whose schema comes from the release named below. Descriptions inside Kubernetes' types are left out:
with them the pod template alone would not fit into an object.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, VOLCANO_KINDS, Kind, Obj

_KUBERNETES = "v1.36.0-local"
_MARKER = "x-hekla-type"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_KEPT = (
    "format",
    "required",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)
# A key of a keyed list must be required or have a default; Kubernetes' own types fill these two in later.
_KEY_DEFAULTS = {"protocol": "TCP", "name": ""}
_ROOT_PROPERTIES: Obj = {
    "apiVersion": {"type": "string", "description": "The version of the schema this object is written in."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}


def load_crds() -> list[Obj]:
    """One CustomResourceDefinition for each of Volcano's kinds, complete and ready to be created. A fresh copy."""
    types = _Types(_read_yaml("fragments"), _kubernetes_definitions())
    return [_definition(kind, types) for kind in VOLCANO_KINDS]


def _definition(kind: Kind, types: _Types) -> Obj:
    source = _read_yaml(kind.kind.lower())
    schema = types.expand(source["schema"])
    schema["properties"] = {**_ROOT_PROPERTIES, **schema["properties"]}
    version: Obj = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}} if "status" in kind.subresources else {},
    }
    if "columns" in source:
        version["additionalPrinterColumns"] = source["columns"]
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": kind.resource, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


class _Types:
    """Named types, each expanded once."""

    def __init__(self, fragments: Obj, kubernetes: Obj) -> None:
        self._fragments = fragments
        self._kubernetes = kubernetes
        self._expanded: dict[str, Obj] = {}

    def expand(self, schema: Obj) -> Obj:
        """A schema of ours with every marker replaced; what stands beside a marker overrides the type's own."""
        result: Obj = {}
        name = schema.get(_MARKER)
        if name is not None:
            result.update(self._named(name))
        for key, value in schema.items():
            if key == "properties":
                result[key] = {field: self.expand(inner) for field, inner in value.items()}
            elif key in ("items", "additionalProperties"):
                result[key] = self.expand(value)
            elif key != _MARKER:
                result[key] = value
        return result

    def _named(self, name: str) -> Obj:
        if name not in self._expanded:
            if name in self._fragments:
                self._expanded[name] = self.expand(self._fragments[name])
            elif name in (_OBJECT_META, _QUANTITY):
                self._expanded[name] = self._named("EmbeddedMetadata" if name == _OBJECT_META else "Quantity")
            elif name == _INT_OR_STRING:
                self._expanded[name] = {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                }
            else:
                self._expanded[name] = self._structural(self._kubernetes[name])
        return self._expanded[name]

    def _structural(self, schema: Obj) -> Obj:
        """A schema of Kubernetes as a structural one: no references, one type, no words."""
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        result: Obj = {"type": _single_type(schema["type"])}
        result.update({key: schema[key] for key in _KEPT if key in schema})
        if "properties" in schema:
            result["properties"] = {field: self._structural(inner) for field, inner in schema["properties"].items()}
        if "items" in schema:
            result["items"] = _with_key_defaults(
                self._structural(schema["items"]), schema.get("x-kubernetes-list-map-keys", ())
            )
        if isinstance(schema.get("additionalProperties"), dict):
            result["additionalProperties"] = self._structural(schema["additionalProperties"])
        return result


def _with_key_defaults(items: Obj, keys: list[str]) -> Obj:
    missing = [key for key in keys if key not in items.get("required", ())]
    if not missing:
        return items
    properties = dict(items["properties"])
    for key in missing:
        properties[key] = {**properties[key], "default": _KEY_DEFAULTS[key]}
    return {**items, "properties": properties}


def _single_type(type_: Any) -> Any:
    return next(name for name in type_ if name != "null") if isinstance(type_, list) else type_


def _read_yaml(name: str) -> Obj:
    text = files(__name__).joinpath(f"{name}.yaml").read_bytes()
    # The C loader is ten times faster; the files are our own, so its deep recursion is no concern.
    document: Obj = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return document


def _kubernetes_definitions() -> Obj:
    # Found, not imported: importing the package would load its validators.
    found = find_spec("kubernetes_validate")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent / "kubernetes-json-schema" / _KUBERNETES / "_definitions.json"
    definitions: Obj = msgspec.json.decode(path.read_bytes())["$defs"]
    return definitions
