"""Words for a group that may not enter; shared by the plugins that vote on it."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.scheduler.arrays.resources import MEMORY, Floats, Ints
from hekla.scheduler.rows import show_amount

_MEBIBYTE = 1 << 20


def lacking(names: Sequence[str], columns: Ints, asked: Floats, left: Floats, most: Floats, limit: str) -> str:
    """`cpu: 6 asked, 5 left; memory: …` for the columns in question; what waiting cannot change comes first.

    `most` is what there could be with nobody else inside, and `limit` says so after the amount.
    """
    hopeless = [column for column in columns.tolist() if asked[column] > most[column]]
    amounts = [(column, most, limit) if column in hopeless else (column, left, "left") for column in columns.tolist()]
    return "; ".join(
        f"{names[column]}: {show_amount(names[column], asked[column])} asked, "
        f"{show_amount(names[column], _rounded(names[column], there[column]))} {word}"
        for column, there, word in sorted(amounts, key=lambda one: one[0] not in hopeless)
    )


def nowhere(names: Sequence[str], columns: Ints, asked: Floats, total: Floats) -> str:
    """What no node has at all; empty where there is some of everything."""
    absent = [column for column in columns.tolist() if not total[column]]
    return "; ".join(
        f"no node has {names[column]}: {show_amount(names[column], asked[column])} asked" for column in absent
    )


def _rounded(name: str, amount: float) -> float:
    """Memory down to whole mebibytes: a fraction of a cluster is no number to read otherwise."""
    return amount // _MEBIBYTE * _MEBIBYTE if name == MEMORY else amount
