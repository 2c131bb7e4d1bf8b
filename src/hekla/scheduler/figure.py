"""Figures that plugins tell of themselves, for `metrics.py`."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A figure a plugin tells of itself: the name without upstream's prefix, the values of its labels, the value."""

    name: str
    labels: tuple[str, ...]
    value: float
