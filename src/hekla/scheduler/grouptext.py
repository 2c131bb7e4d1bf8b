"""Upstream's sentence about a group, which it writes into conditions and Events."""

from __future__ import annotations

from collections import Counter

import numpy as np

from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import GroupState
from hekla.scheduler.snapshot import are

_STATUS_TEXTS = tuple(status.text for status in PodStatus)


def group_text(state: GroupState, ready: bool) -> str:
    """Upstream's sentence about a group: ready or not, its pods by status, why the pending ones wait."""
    counted = [f"{count} {status}" for status, count in zip(_STATUS_TEXTS, state.counts) if count]
    counted.append(f"{state.group.row.min_member} minAvailable")
    text = f"pod group is {'ready' if ready else 'not ready'}, {', '.join(sorted(counted))}"
    if state.counts[PodStatus.PENDING]:
        text += f"; Pending: {_pending_reasons(state)}"
    origin = first_in_vain(state)
    if origin is not None:
        text += f". Origin reason is {state.group.pods[origin].name}: {state.errors[origin].text}"
    return text


def first_in_vain(state: GroupState) -> int | None:
    """The first pod that nodes were asked about, in vain."""
    return min(state.errors, key=lambda position: (bool(state.errors[position].said_of), position), default=None)


def is_ready(state: GroupState) -> bool:
    return state.ready_pods + state.pending_best_effort >= state.group.row.min_member


def _pending_reasons(state: GroupState) -> str:
    pending = np.flatnonzero(are(state.status, PodStatus.PENDING)).tolist()
    reasons = Counter(_pending_reason(state, position) for position in pending)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _pending_reason(state: GroupState, position: int) -> str:
    tried = state.tried.get(position)
    return "Schedulable" if tried is not None and tried.status is PodStatus.ALLOCATED else "Unschedulable"
