"""Calling admission as the real server calls webhooks: review in, patch or refusal out."""

from __future__ import annotations

import base64
import random

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.review import Admission
from hekla.apiserver.access.user import User
from hekla.apiserver.identity import Uids
from hekla.apiserver.patching import PatchRefused, json_patch
from hekla.apiserver.resource import Resource
from hekla.apiserver.store.store import Key, Store
from hekla.errors import ApiError, InternalError

# parity: what the packaged manifests call the webhooks of these kinds.
_WEBHOOK_NAMES = {"JobFlow": "job", "HyperNode": "hypernodes"}


class StoreReader:
    """What admission may look up, answered from committed state."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Obj | None:
        place = (namespace or "") if kind.namespaced else ""
        entry = self._store.get(Key(f"{kind.group}/{kind.plural}", place, name))
        return entry.peek() if entry is not None else None

    async def find_all(self, kind: Kind, namespace: str | None = None) -> list[Obj]:
        entries = self._store.entries(f"{kind.group}/{kind.plural}", namespace or "")
        return [entry.peek() for entry in entries]


class Admitter:
    """One write's passage through admission."""

    def __init__(self, admission: Admission, rng: random.Random) -> None:
        self._admission = admission
        self._uids = Uids(rng)

    def interested(self, resource: Resource, operation: str) -> bool:
        return self._admission.interested(resource.kind, operation)

    async def mutate(
        self, resource: Resource, operation: str, obj: Obj, old: Obj | None, dry_run: bool, user: User
    ) -> Obj | None:
        """What becomes of the object, which is changed for it; None when nothing does."""
        if not self._admission.fills_in(resource.kind, operation):
            return None
        answer = await self._admission.mutate(self._review(resource, operation, obj, old, dry_run, user))
        response = answer["response"]
        if not response.get("allowed"):
            raise _refusal("mutate", resource.kind, response)
        if not response.get("patch"):
            return None
        try:
            result: Obj = json_patch(obj, msgspec.json.decode(base64.b64decode(response["patch"])) or [])
        except PatchRefused as error:
            raise InternalError(
                f"Internal error occurred: {error}", details={"causes": [{"message": str(error)}]}
            ) from None
        return result

    async def validate(
        self, resource: Resource, operation: str, obj: Obj | None, old: Obj | None, dry_run: bool, user: User
    ) -> list[str]:
        """Raises the refusal; what is only worth a warning is returned."""
        review = self._review(resource, operation, obj, old, dry_run, user)
        response = (await self._admission.validate(review))["response"]
        if not response.get("allowed"):
            raise _refusal("validate", resource.kind, response)
        return [str(each) for each in response.get("warnings") or ()]

    def _review(
        self, resource: Resource, operation: str, obj: Obj | None, old: Obj | None, dry_run: bool, user: User
    ) -> Obj:
        kind = resource.kind
        metadata = (obj or old or {})["metadata"]
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        gvr = {"group": kind.group, "version": kind.version, "resource": kind.plural}
        request = {
            "uid": self._uids.next(),
            "kind": gvk,
            "resource": gvr,
            "requestKind": gvk,
            "requestResource": gvr,
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
            "operation": operation,
            "userInfo": user.info(),
            "object": obj,
            "oldObject": old,
            "dryRun": dry_run,
            "options": None,
        }
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _refusal(step: str, kind: Kind, response: Obj) -> ApiError:
    webhook = f"{step}{_WEBHOOK_NAMES.get(kind.kind, kind.kind.lower())}.volcano.sh"
    status = response.get("status") or {}
    message = status.get("message") or status.get("reason") or "without explanation"
    code = int(status.get("code") or 400)
    why = (
        "denied the request without explanation"
        if message == "without explanation"
        else f"denied the request: {message}"
    )
    return ApiError(f'admission webhook "{webhook}" {why}', code=code, reason=status.get("reason") or "")
