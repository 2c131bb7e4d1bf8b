"""What shaping and checking make of a spec or a status, remembered by how it is written: most come many times.

Each asks the walk of `shaping.py` or `checking.py` once for a part and its schema. Whoever needs more than that, to
name the fields that go or are wrong, walks again. Statuses carry times, and are alike for a second.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hekla.api.kinds import Obj
from hekla.api.remembered import remembered
from hekla.apiserver.checking import check
from hekla.apiserver.schema import Node
from hekla.apiserver.shaping import WrongType, decode_shape, drop_nulls, fill_defaults, prune

_PARTS = ("spec", "status")
_NOTHING = frozenset[str]()
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def shaped(obj: Obj, schema: Node, known: frozenset[str] = _NOTHING) -> frozenset[str]:
    """The `known`, and what else of a built-in kind `decode_shape` would leave as it is."""
    return known.union(name for name, node, part in _parts(obj, schema, known) if _stays_shaped(part, node))


def pruned(obj: Obj, schema: Node, known: frozenset[str] = _NOTHING) -> frozenset[str]:
    """The `known`, and what else of a custom resource `prune` would leave as it is."""
    return known.union(name for name, node, part in _parts(obj, schema, known) if _stays_pruned(part, node))


def right(obj: Obj, schema: Node, known: frozenset[str] = _NOTHING) -> frozenset[str]:
    """The `known`, and what else of a custom resource `check` would find nothing wrong with."""
    return known.union(name for name, node, part in _parts(obj, schema, known) if _has_no_problems(part, node))


def fill(obj: Obj, schema: Node, *, nulls: bool = False) -> frozenset[str]:
    """Fill in a custom resource as `fill_defaults` would, after `drop_nulls` unless `nulls` are to stay; but for what
    is outside these parts. Which parts."""
    parts = list(_parts(obj, schema, _NOTHING))
    for name, node, part in parts:
        filled = _filled(part, node, nulls)
        if filled != part:
            obj[name] = _decode(filled)
    return frozenset(name for name, _, _ in parts)


def _parts(obj: Obj, schema: Node, known: frozenset[str]) -> Iterator[tuple[str, Node, bytes]]:
    properties = schema.properties or {}
    for name in _PARTS:
        node = properties.get(name)
        if node is not None and name not in known and type(obj.get(name)) is dict:
            yield name, node, _encode(obj[name])


@remembered
def _stays_shaped(encoded: bytes, node: Node) -> bool:
    spec, unknown = _decode(encoded), list[str]()
    try:
        decode_shape(spec, node, unknown)
    except WrongType:
        return False
    return not unknown and _encode(spec) == encoded


@remembered
def _stays_pruned(encoded: bytes, node: Node) -> bool:
    spec, unknown = _decode(encoded), list[str]()
    prune(spec, node, unknown)
    return not unknown


@remembered
def _has_no_problems(encoded: bytes, node: Node) -> bool:
    return not check(_decode(encoded), node)


@remembered
def _filled(encoded: bytes, node: Node, nulls: bool) -> bytes:
    spec = _decode(encoded)
    if not nulls:
        drop_nulls(spec, node)
    fill_defaults(spec, node)
    return _encode(spec)
