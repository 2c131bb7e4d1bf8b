"""What shaping and checking make of a spec, remembered by how it is written: most come many times.

Each asks the walk of `shaping.py` or `checking.py` once for a spec and a schema. Whoever needs more than that, to name
the fields that go or are wrong, walks again.
"""

from __future__ import annotations

import msgspec

from hekla.api.kinds import Obj
from hekla.api.remembered import remembered
from hekla.apiserver.checking import check
from hekla.apiserver.schema import Node
from hekla.apiserver.shaping import WrongType, decode_shape, fill_defaults, prune

SPEC = "spec"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def is_shaped(obj: Obj, schema: Node) -> bool:
    """Whether `decode_shape` would leave the spec of a built-in kind as it is."""
    node = _spec_node(obj, schema)
    return node is not None and _stays_shaped(_encode(obj[SPEC]), node)


def is_pruned(obj: Obj, schema: Node) -> bool:
    """Whether `prune` would leave the spec of a custom resource as it is."""
    node = _spec_node(obj, schema)
    return node is not None and _stays_pruned(_encode(obj[SPEC]), node)


def is_right(obj: Obj, schema: Node) -> bool:
    """Whether `check` would find nothing wrong with the spec of a custom resource."""
    node = _spec_node(obj, schema)
    return node is not None and _has_no_problems(_encode(obj[SPEC]), node)


def fill_spec(obj: Obj, schema: Node) -> bool:
    """Fill in the spec of a custom resource as `fill_defaults` would. False when it must be asked itself."""
    node = _spec_node(obj, schema)
    if node is None:
        return False
    encoded = _encode(obj[SPEC])
    filled = _filled(encoded, node)
    if filled != encoded:
        obj[SPEC] = _decode(filled)
    return True


def _spec_node(obj: Obj, schema: Node) -> Node | None:
    return (schema.properties or {}).get(SPEC) if type(obj.get(SPEC)) is dict else None


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
def _filled(encoded: bytes, node: Node) -> bytes:
    spec = _decode(encoded)
    fill_defaults(spec, node)
    return _encode(spec)
