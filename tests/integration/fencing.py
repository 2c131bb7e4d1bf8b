"""Whether a write says which object it means: the uid or the revision it was decided on.

Without that, a component that was deposed, or whose picture is old, changes an object it has never seen (I9, I15).
"""

from __future__ import annotations

from typing import Any

import msgspec

from hekla.api.batches import BATCH_PATH

# Made under random names by those who write them; the kubelet alone writes its Node; children follow no decision.
_FREE = ("/events", "/nodes/", "/kube-node-lease/")


def unfenced(method: str, path: str, body: bytes) -> str:
    """What is missing in a request that changes an object; empty when nothing is."""
    place = path.partition("?")[0]
    if method == "GET" or any(part in place for part in _FREE):
        return ""
    document: dict[str, Any] = msgspec.json.decode(body) if body else {}
    metadata = document.get("metadata") or {}
    if method == "DELETE":
        fence = document.get("preconditions") or {}
        return "" if fence.get("uid") or fence.get("resourceVersion") else f"DELETE {place} has no precondition"
    if method in ("PUT", "PATCH"):
        has = metadata.get("uid") or metadata.get("resourceVersion")
        return "" if has else f"{method} {place} does not say which object it means"
    if place.endswith("/binding"):
        return "" if metadata.get("uid") else f"{method} {place} does not say which pod it means"
    if place.startswith(BATCH_PATH) and place.endswith("/bindingbatches"):
        bare = [item for item in document.get("items") or () if not item["metadata"].get("uid")]
        return f"{len(bare)} bindings of {place} do not say which pod they mean" if bare else ""
    return ""
