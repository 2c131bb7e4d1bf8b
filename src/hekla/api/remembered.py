"""Answers that need not be worked out again: the pods of a gang, and Jobs by the thousand, are written alike.

For pure functions of a value in its JSON form. Which few hundred were asked about last is all that is kept, and large
values are not kept at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_VALUES = 512
_LARGEST = 16 * 1024


def remembered(function: Callable[Concatenate[bytes, P], T]) -> Callable[Concatenate[bytes, P], T]:
    """What `function` gives must not be changed by anybody; what it raises is raised anew each time."""
    known: Callable[..., T] = lru_cache(maxsize=_VALUES)(function)

    @wraps(function)
    def asked(encoded: bytes, /, *arguments: P.args, **named: P.kwargs) -> T:
        ask = known if len(encoded) <= _LARGEST else function
        return ask(encoded, *arguments, **named)

    return asked
