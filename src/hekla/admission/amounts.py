"""Amounts that a server takes and nobody means: `memory: 512m` is half a byte, `memory: 8` is eight, `cpu: 100M` is a
hundred million CPUs.
"""

from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, parse

_COUNTED_IN_BYTES = ("memory", "ephemeral-storage")
_DOUBTED = frozenset({*_COUNTED_IN_BYTES, "cpu"})
_FEWEST_BYTES = 1 << 20  # with less no program starts
_MOST_CPUS = 100_000  # more has no machine


def amount_warnings(pod_spec: Obj, path: str) -> list[str]:
    """About every request and limit that is too few bytes to be one, or too many CPUs; Kubernetes warns of parts of
    bytes alone."""
    found = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field) or ()):
            for side, amounts in (container.get("resources") or {}).items():
                where = f"{path}.{field}[{index}].resources.{side}"
                found += _about(amounts, where) if side in ("requests", "limits") else []
    return found


def _about(amounts: Obj | None, where: str) -> list[str]:
    doubts = [(name, text, _doubt(name, text)) for name, text in (amounts or {}).items()]
    return [f"{where}[{name}]: {text} is {doubt}" for name, text, doubt in doubts if doubt]


def _doubt(name: str, text: str) -> str:
    if name not in _DOUBTED:
        return ""
    try:
        amount = parse(text)
    except InvalidQuantity:
        return ""  # told by whoever refuses it
    if name in _COUNTED_IN_BYTES and 0 < amount < _FEWEST_BYTES:
        return f"{amount:f} bytes, too few for anything: Mi or Gi?"
    if name == "cpu" and amount > _MOST_CPUS:
        return f"{amount:f} CPUs, more than any machine has: m?"
    return ""
