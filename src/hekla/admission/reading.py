"""Whether an object can be read as upstream's types read it: a wrong type is refused, in upstream's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from hekla.api.duration import InvalidDuration, parse_duration
from hekla.api.go_types import INT32, Duration, IntOrString, ListOf, MapOf, Quantity, Scalar, Struct
from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, parse
from hekla.api.remembered import remembered
from hekla.api.upstream_types import JOB, POD_GROUP, QUEUE

_TYPES = {type_.struct: type_ for type_ in (JOB, QUEUE, POD_GROUP)}


@dataclass(frozen=True)
class Misread:
    """A value that cannot be read: where, what to tell a person, upstream's words, and whether it reads no further."""

    path: str
    message: str
    upstream: str
    ends: bool = False


def unreadable(obj: Obj, type_: Struct = JOB) -> str:
    """Why upstream could not read an object of a type; empty when it can."""
    return _unreadable(msgspec.json.encode({name: obj[name] for name in type_.fields if name in obj}), type_.struct)


@remembered
def _unreadable(encoded: bytes, struct: str) -> str:
    found = misread(msgspec.json.decode(encoded), _TYPES[struct])
    # A duration that is none ends the reading at once; a wrong type is told when everything has been read.
    ending = [one for one in found if one.ends]
    return next((one.upstream for one in ending or found), "")


def misread(obj: Obj, type_: Struct = JOB) -> list[Misread]:
    """Everything in an object, usually a Job, that is of the wrong type."""
    return list(_misread(obj, type_, _Place("", "", "")))


@dataclass(frozen=True)
class _Place:
    """Where a value stands: as people write it, and as Go does, which counts no items and names the struct."""

    path: str
    struct: str
    fields: str

    def field(self, struct: Struct, name: str) -> _Place:
        inside = f"{struct.inside[name]}." if name in struct.inside else ""
        return _Place(f"{self.path}.{name}".lstrip("."), struct.struct, f"{self.fields}.{inside}{name}".lstrip("."))

    def inner(self, key: int | str) -> _Place:
        return _Place(f"{self.path}[{key}]", self.struct, self.fields)


def _misread(value: Any, kind: Any, place: _Place) -> Iterator[Misread]:
    """Fields in the order in which a server sends them: by name."""
    if value is None:
        return
    match kind:
        case Struct() if isinstance(value, dict):
            for name in sorted(value):
                if name in kind.fields:
                    yield from _misread(value[name], kind.fields[name], place.field(kind, name))
        case ListOf() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _misread(item, kind.item, place.inner(index))
        case MapOf() if isinstance(value, dict):
            for name in sorted(value):
                yield from _misread(value[name], kind.value, place.inner(name))
        case Duration():
            fault = _duration_fault(value) if isinstance(value, str) else _unread(value, kind, place)
            if fault:
                yield Misread(place.path, f"{value!r} is not a duration such as 90s, 5m or 1h30m", fault, ends=True)
        case Quantity():
            fault = _amount_fault(value)
            if fault:
                yield Misread(place.path, f"{value!r} is not an amount such as 500m, 2 or 1Gi", fault, ends=True)
        case Scalar() if _holds(kind, value):
            return
        case IntOrString() if isinstance(value, str) or _holds(INT32, value):
            return
        case _:
            fault, ends = _unread(value, kind, place), isinstance(kind, IntOrString)
            yield Misread(place.path, f"must be {_wanted(kind)}, not {value!r}", fault, ends)


def _unread(value: Any, kind: Any, place: _Place) -> str:
    where = f"Go struct field {place.struct}.{place.fields} of type {kind.name}"
    return f"json: cannot unmarshal {_json_kind(value, kind)} into {where}"


def _wanted(kind: Any) -> str:
    match kind:
        case Scalar():
            return "true or false" if kind.truth else "text" if kind.integers is None else "a whole number"
        case IntOrString():
            return "a whole number or text"
        case ListOf():
            return "a list"
        case _:
            return "a mapping"


def _holds(kind: Scalar, value: Any) -> bool:
    if kind.truth:
        return isinstance(value, bool)
    if kind.integers is None:
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool) and value in kind.integers


def _duration_fault(value: str) -> str:
    try:
        parse_duration(value)
    except InvalidDuration as error:
        return str(error)
    return ""


def _amount_fault(value: Any) -> str:
    try:
        parse(value if isinstance(value, str | int | float) and not isinstance(value, bool) else "")
    except InvalidQuantity as error:
        return str(error)
    return ""


def _json_kind(value: Any, wanted: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        number = isinstance(wanted, IntOrString) or (isinstance(wanted, Scalar) and wanted.integers is not None)
        return f"number {value}" if number else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
