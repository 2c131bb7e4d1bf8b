"""The schemas of Kubernetes' own kinds, from the package that carries them for each release."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.apiserver.schema import Node, fill_node

RELEASE = "v1.36.0"
_PREFIX = "#/$defs/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OPEN = frozenset(
    {
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        # Schemas are kept whole: walking them on every write of a CustomResourceDefinition would gain nothing.
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
    }
)
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Definitions:
    """Nodes by definition name, compiled when first asked for."""

    def __init__(self, documents: dict[str, Obj]) -> None:
        self.documents = documents
        self._nodes: dict[str, Node] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        for name, document in documents.items():
            for gvk in document.get("x-kubernetes-group-version-kind") or ():
                self._names.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)

    def name_of(self, kind: Kind) -> str | None:
        return self._names.get((kind.group, kind.version, kind.kind))

    def node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node()
            self._fill(name, node)
        return node

    def object_meta(self) -> Node:
        return self.node(OBJECT_META)

    def _fill(self, name: str, node: Node) -> None:
        node.name = name
        if name == _QUANTITY:
            node.type, node.quantity = "string", True
        elif name == _INT_OR_STRING:
            node.int_or_string = True
        elif name in _OPEN:
            node.open = True
        else:
            fill_node(node, self.documents[name], self._resolve)
            node.required, node.enum = (), ()

    def _resolve(self, reference: str) -> Node:
        return self.node(reference.removeprefix(_PREFIX))


@lru_cache(maxsize=1)
def load_definitions() -> Definitions:
    """The one parsed copy of a process: immutable data, like a module's constants."""
    spec = find_spec("kubernetes_validate")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "kubernetes-json-schema" / f"{RELEASE}-local"
    return Definitions(msgspec.json.decode((folder / "_definitions.json").read_bytes())["$defs"])
