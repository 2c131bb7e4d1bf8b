"""What the real server's own admission does to every new claim: its storage class, and protection while in use."""

from __future__ import annotations

from hekla.api.core import CLAIM_PROTECTION
from hekla.api.kinds import STORAGE_CLASS, Obj
from hekla.api.meta import annotations_of, name_of
from hekla.apiserver.store.store import Store

_CLASSES = f"{STORAGE_CLASS.group}/{STORAGE_CLASS.plural}"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimAdmission:
    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, claim: Obj) -> None:
        spec = claim.setdefault("spec", {})
        # An empty name is a wish: for a volume without any class.
        if spec.get("storageClassName") is None and _OLD_CLASS not in annotations_of(claim):
            default = self._default_class()
            if default:
                spec["storageClassName"] = default
        finalizers = claim["metadata"].get("finalizers") or []
        if CLAIM_PROTECTION not in finalizers:
            claim["metadata"]["finalizers"] = [*finalizers, CLAIM_PROTECTION]

    def _default_class(self) -> str:
        """The newest of those that are marked; of several made in the same second the first by name."""
        classes = [entry.decode() for entry in self._store.entries(_CLASSES)]
        marked = sorted((one for one in classes if annotations_of(one).get(_IS_DEFAULT) == "true"), key=name_of)
        marked.sort(key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), reverse=True)
        return name_of(marked[0]) if marked else ""
