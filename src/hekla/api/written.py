"""How Go writes back what it has read into a type: what is left out, and what is there even where nothing was said."""

from __future__ import annotations

from typing import Any

from hekla.api.duration import canonical_duration
from hekla.api.go_types import Duration, IntOrString, ListOf, MapOf, Quantity, Scalar, Struct
from hekla.api.kinds import Obj
from hekla.api.quantity import canonical


def written(value: Any, kind: Any) -> Any:
    """A copy of a value as it is written; what is of another type than wanted stays, for a server to refuse.

    Raises InvalidQuantity or InvalidDuration.
    """
    match kind:
        case Struct() if isinstance(value, dict | None):
            return _struct(value or {}, kind)
        case ListOf() if isinstance(value, list):
            return [written(each, kind.item) for each in value]
        case MapOf() if isinstance(value, dict):
            return {name: written(each, kind.value) for name, each in value.items()}
        case Quantity():
            return canonical(0 if value is None else value)
        case Duration() if isinstance(value, str):
            return canonical_duration(value)
        case IntOrString() if value is None:
            return 0
        case Scalar() if value is None:
            return False if kind.truth else "" if kind.integers is None else 0
        case _:
            return value


def _struct(given: Obj, struct: Struct) -> Obj:
    """The fields in the order in which they were given, and then what is written anyhow."""
    result: Obj = {}
    for name in dict.fromkeys([*given, *struct.fields]):
        kind, value = struct.fields.get(name), given.get(name)
        if kind is None:
            continue
        if name in struct.pointers:
            if value is not None or name in struct.always:
                result[name] = value if value is None else written(value, kind)
            continue
        put = written(value, kind)
        # A struct is never nothing to Go, and an amount is one.
        if put or name in struct.always or isinstance(kind, Struct | Quantity):
            result[name] = put
    return result
