"""Whether an object of the cluster is as a file has it; what the server adds does not count."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from hekla.api.kinds import Obj

_NOT_ASKED_FOR = frozenset({"apiVersion", "kind", "metadata", "status"})


def is_as_written(written: Obj, found: Obj) -> bool:
    wanted = {key: value for key, value in written.items() if key not in _NOT_ASKED_FOR}
    # Servers take a Secret's texts and give them back in the form of its bytes.
    for key, text in (wanted.pop("stringData", None) or {}).items():
        wanted["data"] = {**(wanted.get("data") or {}), key: b64encode(str(text).encode()).decode()}
    # Here keys are content: one more in the cluster is a file more in a volume.
    if "data" in wanted and set(wanted["data"] or ()) != set(found.get("data") or ()):
        return False
    return _holds(wanted, found)


def _holds(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict):
        fields = found if isinstance(found, dict) else {}
        return all(_holds(value, fields.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        entries = found if isinstance(found, list) else []
        return len(wanted) == len(entries) and all(map(_holds, wanted, entries))
    return bool(wanted == found)
