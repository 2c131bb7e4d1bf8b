"""The downward API: what a container may learn about its own pod."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING

from hekla.api.kinds import Obj
from hekla.api.quantity import parse
from hekla.node.hooks.sources import MissingSource
from hekla.node.status import HOST_ADDRESS

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def field_value(pod: Obj, path: str, *, node: str, address: str) -> str:
    """`fieldRef.fieldPath` as text."""
    meta, spec = pod["metadata"], pod["spec"]
    match = _SUBSCRIPT.fullmatch(path)
    if match:
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        return _as_lines(meta.get(path.partition(".")[2]) or {})
    known = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta.get("namespace", ""),
        "metadata.uid": meta.get("uid", ""),
        "spec.nodeName": node,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.podIP": address,
        "status.podIPs": address,
        "status.hostIP": HOST_ADDRESS,
        "status.hostIPs": HOST_ADDRESS,
    }
    if path not in known:
        raise MissingSource(f"unsupported fieldPath: {path}")
    return str(known[path])


def resource_value(container: Obj, reference: Obj, allocatable: dict[str, str]) -> str:
    """`resourceFieldRef` as text: rounded up to whole units of its divisor; the node's all where no limit is set."""
    resource = str(reference.get("resource", ""))
    section, _, name = resource.partition(".")
    amounts = (container.get("resources") or {}).get(section) or {}
    amount = amounts.get(name)
    if amount is None:
        amount = allocatable.get(name, "0") if section == "limits" else "0"
    divisor = parse(reference.get("divisor") or "1") or parse("1")
    return str(int((parse(amount) / divisor).to_integral_value(ROUND_CEILING)))


def _as_lines(values: dict[str, str]) -> str:
    return "\n".join(f'{key}="{_escaped(str(values[key]))}"' for key in sorted(values))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
