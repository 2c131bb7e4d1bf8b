"""Groups built from their rows: pods become columns, amounts become lines of a table.

The thousands of groups of one pod differ in little but their names: what is alike shares its columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np
from msgspec.structs import replace

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.resources import Columns, Floats
from hekla.scheduler.rows import Pod, PodGroup, PodStatus, QueueGate
from hekla.scheduler.snapshot import ALLOCATED_STATUSES, IS_ALLOCATED, Group, are, is_on_its_way

_pod_order = attrgetter("index", "created", "uid")  # as Pod.order
_role, _status, _gated, _queue_gate, _priority, _claims, _condition = map(
    attrgetter, ("role", "status", "gated", "queue_gate", "priority", "claims", "condition")
)

_PODS_OF_SMALL = 1
_DIFFERENT = 1024  # so many makeups are remembered
_LET_IN = (QueueGate.OPENING, QueueGate.OPENED)


class GroupBuilder:
    """`shape_lines` maps id(shape) to its line in the request table; a line once given stays as it is."""

    def __init__(self, shape_lines: Mapping[int, int], columns: Columns) -> None:
        self._shape_lines = shape_lines
        self._columns = columns
        self._alike: dict[tuple[object, ...], Group] = {}

    def build(self, row: PodGroup, priority: int, pods: Sequence[Pod], requests: Floats) -> Group:
        if len(pods) > _PODS_OF_SMALL:
            return build_group(row, priority, pods, self._shape_lines, requests, self._columns)
        makeup = self._makeup(row, pods)
        alike = self._alike.get(makeup)
        if alike is not None:
            return replace(alike, row=row, priority=priority, pods=tuple(pods), memo={})
        group = build_group(row, priority, pods, self._shape_lines, requests, self._columns)
        _write_protect(group)
        if len(self._alike) >= _DIFFERENT:
            self._alike.clear()
        self._alike[makeup] = group
        return group

    def _makeup(self, row: PodGroup, pods: Sequence[Pod]) -> tuple[object, ...]:
        """All that the columns of a small group follow from."""
        asked = None if row.min_resources is None else tuple(row.min_resources.items())
        return (row.phase, row.min_member, asked, *(self._features(pod) for pod in pods))

    def _features(self, pod: Pod) -> tuple[object, ...]:
        nominated = pod.condition is not None and bool(pod.condition.nominated)
        held = (pod.gated, pod.queue_gate, bool(pod.claims), nominated)
        return (self._shape_lines[id(pod.shape)], pod.status, pod.role, pod.priority, held)


def _write_protect(group: Group) -> None:
    for name in group.__struct_fields__:
        column = getattr(group, name)
        if isinstance(column, np.ndarray):
            column.setflags(write=False)


def build_group(
    row: PodGroup,
    priority: int,
    pods: Sequence[Pod],
    shape_lines: Mapping[int, int],
    requests: Floats,
    columns: Columns,
) -> Group:
    """The columns of one group."""
    ordered = tuple(sorted(pods, key=_pod_order))
    roles = tuple(sorted(set(map(_role, ordered))))
    role_of = {role: position for position, role in enumerate(roles)}
    status = np.array(list(map(_status, ordered)), dtype=np.int8)
    shape = np.array([shape_lines[id(pod.shape)] for pod in ordered], dtype=np.int64)
    gates = list(map(_gated, ordered))
    gated = np.array(gates, dtype=bool)
    queue_gates = list(map(_queue_gate, ordered))
    at_queue_gate = let_in = np.zeros(len(ordered), dtype=bool)
    if any(queue_gates):
        at_queue_gate = np.array([gate is QueueGate.SHUT for gate in queue_gates])
        let_in = np.array([gate in _LET_IN for gate in queue_gates])
    without_request = [pod.shape.best_effort for pod in ordered]
    pending = are(status, PodStatus.PENDING)
    counts = tuple(np.bincount(status, minlength=len(PodStatus)).tolist())
    allocated = requests[shape[IS_ALLOCATED[status]]].sum(axis=0)
    gated_request = np.zeros(len(allocated))
    if any(gates):
        gated_request = requests[shape[pending & gated & ~at_queue_gate & ~let_in]].sum(axis=0)
    minimum = columns.row(row.min_resources or {})
    missing = np.maximum(np.maximum(minimum - allocated, 0.0) - gated_request, 0.0)
    asked_for = requests[shape[pending]].sum(axis=0)
    claim = np.maximum(minimum - gated_request, 0.0)
    outstanding = missing if _has_entered(row, counts) else np.zeros(len(missing))
    elastic = np.maximum(allocated - minimum, 0.0)
    # parity: what a group inside has been given already is not deducted.
    reserved = claim if row.phase is PodGroupPhase.INQUEUE else outstanding
    return Group(
        row=row,
        priority=priority,
        pods=ordered,
        status=status,
        shape=shape,
        role=np.array([role_of[pod.role] for pod in ordered] if len(roles) > 1 else [0] * len(ordered), dtype=np.int64),
        roles=roles,
        pod_priority=np.array(list(map(_priority, ordered)), dtype=np.int64),
        gated=gated,
        at_queue_gate=at_queue_gate,
        let_in=let_in,
        has_queue_gates=any(queue_gates),
        best_effort=np.array(without_request, dtype=bool),
        has_best_effort=any(without_request),
        has_claims=any(map(_claims, ordered)),
        has_nominated=any(condition.nominated for condition in map(_condition, ordered) if condition is not None),
        counts=counts,
        allocated=allocated,
        pending=asked_for,
        minimum=minimum,
        claim=claim,
        outstanding=outstanding,
        elastic=elastic,
        reserved=reserved,
        holdings=np.array((allocated, asked_for, outstanding, elastic, reserved)),
        memo={},
    )


def _has_entered(row: PodGroup, counts: tuple[int, ...]) -> bool:
    """Whether a group's minimum is spoken for: it waits inside, or has its full number on nodes or on their way."""
    if row.phase is PodGroupPhase.RUNNING:
        return sum(counts[status] for status in ALLOCATED_STATUSES) >= row.min_member
    return row.phase is PodGroupPhase.INQUEUE or is_on_its_way(row, counts)
