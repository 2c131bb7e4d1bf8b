"""Amounts that a server takes and nobody means: `memory: 512m` is half a byte, `memory: 8` is eight."""

from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, parse

_COUNTED_IN_BYTES = ("memory", "ephemeral-storage")
_FEWEST_BYTES = 1 << 20  # with less no program starts


def amount_warnings(pod_spec: Obj, path: str) -> list[str]:
    """About every request and limit that is too few bytes to be one; Kubernetes warns of parts of bytes alone."""
    found = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field) or ()):
            for side, amounts in (container.get("resources") or {}).items():
                where = f"{path}.{field}[{index}].resources.{side}"
                found += _about(amounts, where) if side in ("requests", "limits") else []
    return found


def _about(amounts: Obj | None, where: str) -> list[str]:
    few = [(name, text) for name, text in (amounts or {}).items() if name in _COUNTED_IN_BYTES and _is_few(text)]
    return [f"{where}[{name}]: {text} is {parse(text):f} bytes, too few for anything: Mi or Gi?" for name, text in few]


def _is_few(text: str) -> bool:
    try:
        return 0 < parse(text) < _FEWEST_BYTES
    except InvalidQuantity:
        return False  # told by whoever refuses it
