"""What can be wrong with a field, in Kubernetes' own words. A problem is a value: rules return all they find."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(field: str, value: Any, why: str, *, by_type: bool = False) -> Problem:
    """`by_type` shows only what kind of value it is, not the value."""
    shown = json.dumps(_name(value)) if by_type else _show(value)
    return Problem(field, "FieldValueInvalid", f"Invalid value: {shown}: {why}")


def wrong_type(field: str, found: str, why: str) -> Problem:
    return Problem(field, "FieldValueTypeInvalid", f'Invalid value: "{found}": {why}')


def required(field: str, why: str = "") -> Problem:
    return Problem(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def unsupported(field: str, value: Any, supported: Sequence[Any]) -> Problem:
    listed = ", ".join(_show(each) for each in supported)
    return Problem(field, "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {listed}")


def duplicate(field: str, value_text: str) -> Problem:
    return Problem(field, "FieldValueDuplicate", f"Duplicate value: {value_text}")


def forbidden(field: str, why: str) -> Problem:
    return Problem(field, "FieldValueForbidden", f"Forbidden: {why}")


def too_long(field: str, most: int) -> Problem:
    return Problem(field, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def too_many(field: str, found: int, most: int) -> Problem:
    items = "item" if most == 1 else "items"
    return Problem(field, "FieldValueTooMany", f"Too many: {found}: must have at most {most} {items}")


def not_found(field: str, value: Any) -> Problem:
    return Problem(field, "FieldValueNotFound", f"Not found: {_show(value)}")


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _name(value: Any) -> str:
    return {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}.get(type(value), "null")
