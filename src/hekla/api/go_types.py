"""What Go reads JSON into: structs, lists and maps of scalars, by the names that its errors have for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Scalar:
    """A value of one JSON type; `name` is what it is called upstream.

    It holds `integers`, a `truth`, or else text.
    """

    name: str
    integers: range | None = None
    truth: bool = False


@dataclass(frozen=True)
class Struct:
    """`inside` names the structs that fields stand in which JSON does not tell apart from this one.

    Written are those of the `fields` that hold something, and those that are written `always`; of `pointers` nothing
    is told from zero.
    """

    struct: str
    fields: dict[str, Any] = field(default_factory=dict)
    package: str = "v1alpha1"
    inside: dict[str, str] = field(default_factory=dict)
    always: set[str] = field(default_factory=set)
    pointers: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"{self.package}.{self.struct}"


@dataclass(frozen=True)
class ListOf:
    item: Any
    name: str


@dataclass(frozen=True)
class MapOf:
    value: Any
    name: str


@dataclass(frozen=True)
class Quantity:
    """An amount, as text or as a number."""


@dataclass(frozen=True)
class Duration:
    name: str = "string"  # what it is read into first


@dataclass(frozen=True)
class IntOrString:
    name: str = "int32"  # what is no text is read into


STRING = Scalar("string")
BOOL = Scalar("bool", truth=True)
INT32 = Scalar("int32", _INT32)
INT64 = Scalar("int64", _INT64)
STRINGS = ListOf(STRING, "[]string")
TEXTS = MapOf(STRING, "map[string]string")
AMOUNTS = MapOf(Quantity(), "v1.ResourceList")
