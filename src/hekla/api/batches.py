"""`hekla.dev/v1`: many writes in one request, where a server offers it. What is sent and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hekla.api.kinds import Kind, Obj

BATCH_GROUP = "hekla.dev"
OBJECT_BATCH = Kind(BATCH_GROUP, "v1", "ObjectBatch", "objectbatches", False)
BINDING_BATCH = Kind(BATCH_GROUP, "v1", "BindingBatch", "bindingbatches", False)
REQUEST_BATCH = Kind(BATCH_GROUP, "v1", "RequestBatch", "requestbatches", False)
BATCH_PATH = f"/apis/{BATCH_GROUP}/{OBJECT_BATCH.version}"


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod, of this uid and no other, to be placed on a node."""

    namespace: str
    pod: str
    node: str
    uid: str
    annotations: dict[str, str] = field(default_factory=dict, hash=False)

    def to_object(self) -> Obj:
        metadata: dict[str, Any] = {"name": self.pod, "namespace": self.namespace, "uid": self.uid}
        if self.annotations:
            metadata["annotations"] = self.annotations
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
