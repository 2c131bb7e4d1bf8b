"""Words for a group that may not enter; shared by the plugins that vote on it."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.scheduler.arrays.resources import MEMORY, Floats, Ints
from hekla.scheduler.rows import show_amount

_MEBIBYTE = 1 << 20


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
