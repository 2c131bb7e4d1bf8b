"""The 422 that lists what is wrong with an object's fields, worded as the real server words it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hekla.api.field import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
    wrong_type,
)
from hekla.api.kinds import Kind
from hekla.errors import Invalid

__all__ = [
    "Problem",
    "duplicate",
    "forbidden",
    "invalid",
    "refusal",
    "required",
    "too_long",
    "too_many",
    "unsupported",
    "wrong_type",
]


def refusal(kind: Kind, name: str, problems: Iterable[Problem]) -> Invalid:
    """The answer that lists every problem of an object at once."""
    listed = list(problems)
    shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = str(listed[0]) if len(listed) == 1 else "[" + ", ".join(map(str, listed)) + "]"
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind
    details["causes"] = [
        {"reason": problem.reason, "message": problem.message, "field": problem.field} for problem in listed
    ]
    return Invalid(f'{shown} "{name}" is invalid: {text}', details=details)
