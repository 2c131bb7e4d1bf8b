"""What an Event says, as people read it: its message, and for whose sake it happened where that is known."""

from __future__ import annotations

import re

from hekla.api.kinds import POD_GROUP, Obj

# A Job's PodGroup has the Job's name and uid.
_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def told(event: Obj) -> str:
    message, related = str(event.get("message") or "").strip(), event.get("related") or {}
    if related.get("kind") != POD_GROUP.kind:
        return message
    name = _UID.sub("", str(related.get("name", "")))
    namespace = related.get("namespace")
    return f"{message} (for {name if namespace == event['involvedObject'].get('namespace') else f'{namespace}/{name}'})"
