"""Pods of our scheduler: the annotations of their disruption budget; and the gate of their queue, for who wants it."""

from __future__ import annotations

import re

from hekla.api.batch import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.api.scheduling import QUEUE_GATE

_BUDGETS = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = 1 << 63


def add_queue_gate(pod: Obj) -> None:
    """Hold back a new pod that asks for it until its queue has room; one that comes with its node is there already."""
    spec = pod["spec"]
    if annotations_of(pod).get(QUEUE_GATE) != "true" or spec.get("nodeName"):
        return
    gates = spec.get("schedulingGates") or []
    if all(gate.get("name") != QUEUE_GATE for gate in gates):
        spec["schedulingGates"] = [*gates, {"name": QUEUE_GATE}]


def validate_pod(pod: Obj, schedulers: tuple[str, ...]) -> str:
    if (pod.get("spec") or {}).get("schedulerName") not in schedulers:
        return ""
    given = [(key, annotations_of(pod)[key]) for key in _BUDGETS if key in annotations_of(pod)]
    for key, value in given:
        message = _budget_message(key, value)
        if message:
            return message
    if len(given) > 1:
        return f"not allow configure multiple annotations <[{' '.join(_BUDGETS)}]> at same time"
    return ""


def _budget_message(key: str, value: str) -> str:
    number = value.removesuffix("%")
    if not _INTEGER.fullmatch(number):
        return f'invalid value strconv.Atoi: parsing "{number}": invalid syntax for {key}'
    if not -_INT64 <= int(number) < _INT64:
        return f'invalid value strconv.Atoi: parsing "{number}": value out of range for {key}'
    if value.endswith("%"):
        if not 1 <= int(number) <= 99:
            return f'invalid value <"{value}"> for {key}, it must be a valid percentage which between 1% ~ 99%'
        return ""
    return "" if int(number) > 0 else f'invalid value <"{value}"> for {key}, it must be a positive integer'
