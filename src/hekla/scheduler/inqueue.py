"""What groups that have entered still count for; shared by the plugins that vote on entering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hekla.scheduler.arrays.resources import MEMORY, Floats, Ints
from hekla.scheduler.rows import PodStatus, show_amount
from hekla.scheduler.session import GroupState
from hekla.scheduler.snapshot import ALLOCATED_STATUSES

_MEBIBYTE = 1 << 20


def without_gated(amount: Floats, state: GroupState) -> Floats:
    """Pods held by a gate need nothing yet."""
    return np.maximum(amount - state.group.gated_request, 0.0)


def still_missing(state: GroupState) -> Floats:
    """The part of the minimum of a running group that it does not hold yet; nothing for a group below its size."""
    counts: dict[PodStatus, int] = dict(zip(PodStatus, state.counts))
    minimum = state.group.minimum
    if sum(counts[status] for status in ALLOCATED_STATUSES) < state.group.row.min_member:
        return np.zeros_like(minimum)
    return without_gated(np.maximum(minimum - state.group.allocated, 0.0), state)


def asked_and_left(names: Sequence[str], columns: Ints, asked: Floats, left: Floats) -> str:
    """`cpu: 6 asked, 5 left; memory: …` for the columns in question."""
    return "; ".join(
        f"{names[column]}: {show_amount(names[column], asked[column])} asked, "
        f"{show_amount(names[column], _rounded(names[column], left[column]))} left"
        for column in columns.tolist()
    )


def _rounded(name: str, amount: float) -> float:
    """Memory down to whole mebibytes: a fraction of a cluster is no number to read otherwise."""
    return amount // _MEBIBYTE * _MEBIBYTE if name == MEMORY else amount
