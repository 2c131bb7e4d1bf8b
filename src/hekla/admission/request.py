"""Whether a review can be answered: what is refused here is told to whoever sent it, not to people.

An API server sends none of these. The object itself may still be of any shape below its metadata.
"""

from __future__ import annotations

from typing import Any

from hekla.api.kinds import Obj

_TEXTS = ("uid", "name", "namespace", "operation")
_CARRIED = {"CREATE": ("object",), "UPDATE": ("object", "oldObject")}


def fault_of_request(request: Any) -> str:
    """What keeps it from being answered; empty when nothing does."""
    if not isinstance(request, dict) or "operation" not in request:
        return "a review whose request is not of a write"
    for name in _TEXTS:
        if not isinstance(request.get(name), str | None):
            return f"a review whose request.{name} is no text"
    if not isinstance(request.get("kind"), dict | None):
        return "a review whose request.kind is not of the form {group, version, kind}"
    for name in _CARRIED.get(request["operation"] or "", ()):
        if not _is_object(request.get(name)):
            return f"a review whose request.{name} is no object with metadata"
    # Where a collection is deleted, what goes is named in the object alone.
    if request["operation"] == "DELETE" and not request.get("name") and not _is_object(request.get("oldObject")):
        return "a review of a deletion that does not name what is deleted"
    return ""


def _is_object(value: Any) -> bool:
    metadata: Obj | None = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and all(
        isinstance(metadata.get(name), str | None) for name in ("name", "generateName")
    )
