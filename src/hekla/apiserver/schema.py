"""Schemas, compiled once per kind into nodes that the other modules walk.

Two sources give the same `Node`: the definitions of Kubernetes' own kinds (`definitions.py`) and the structural
schemas inside CustomResourceDefinitions. `shaping.py` prunes and defaults with them, `checking.py` validates,
`patching.py` merges lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from hekla.api.kinds import Obj

Lookup = Callable[[str], "Node"]


class Validation(NamedTuple):
    """A rule in CEL, and what is said when it is broken; what is not given is empty."""

    rule: str
    message: str
    message_expression: str
    reason: str
    field_path: str


class Node:
    """One place in a schema. `additional` describes the values of a map; `open` keeps fields nobody described."""

    __slots__ = (
        "additional",
        "any_of",
        "atomic",
        "bounds",
        "default",
        "defaults",
        "embedded",
        "enum",
        "format",
        "has_default",
        "has_rules",
        "int_or_string",
        "is_text",
        "items",
        "list_type",
        "map_keys",
        "merge_key",
        "name",
        "nullable",
        "one_of",
        "open",
        "pattern",
        "properties",
        "quantity",
        "required",
        "rules",
        "strategy",
        "type",
    )

    def __init__(self) -> None:
        self.type = ""
        self.name = ""
        self.format = ""
        self.properties: dict[str, Node] | None = None
        self.additional: Node | None = None
        self.items: Node | None = None
        self.required: tuple[str, ...] = ()
        self.enum: tuple[Any, ...] = ()
        self.bounds: dict[str, Any] = {}
        self.pattern: re.Pattern[str] | None = None
        self.default: Any = None
        self.has_default = False
        self.defaults: tuple[tuple[str, Node], ...] = ()  # the properties that have one
        self.nullable = False
        self.open = False
        self.embedded = False
        self.int_or_string = False
        self.is_text = False  # any text will do
        self.quantity = False
        self.atomic = False
        self.list_type = ""
        self.map_keys: tuple[str, ...] = ()
        self.merge_key = ""
        self.strategy: tuple[str, ...] = ()
        self.any_of: tuple[Node, ...] = ()
        self.one_of: tuple[Node, ...] = ()
        self.rules: tuple[Validation, ...] = ()
        self.has_rules = False  # here or below


ANYTHING = Node()
ANYTHING.open = True
_BOUNDS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip


def compile_schema(schema: Obj, lookup: Lookup | None = None) -> Node:
    """`lookup` resolves a `$ref` to its node; CustomResourceDefinitions have none."""
    return fill_node(Node(), schema, lookup)


def fill_node(node: Node, schema: Obj, lookup: Lookup | None) -> Node:
    """Compile into a node that others may point at already: definitions refer to themselves."""
    _fill_shape(node, schema, lookup)
    _fill_rules(node, schema, lookup)
    return node


def _fill_shape(node: Node, schema: Obj, lookup: Lookup | None) -> None:
    type_ = schema.get("type", "")
    if isinstance(type_, list):
        type_ = next((name for name in type_ if name != "null"), "")
    node.type = type_
    node.format = schema.get("format", "")
    if "properties" in schema:
        node.properties = {name: _child(below, lookup) for name, below in schema["properties"].items()}
        node.defaults = tuple((name, child) for name, child in node.properties.items() if child.has_default)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        node.additional = _child(additional, lookup)
    elif additional:
        node.additional = ANYTHING
    if isinstance(schema.get("items"), dict):
        node.items = _child(schema["items"], lookup)
    node.open = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    node.int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    node.is_text = node.type == "string" and node.format not in ("byte", "date-time")


def _fill_rules(node: Node, schema: Obj, lookup: Lookup | None) -> None:
    node.nullable = bool(schema.get("nullable"))
    node.required = tuple(schema.get("required") or ())
    node.enum = tuple(schema.get("enum") or ())
    node.bounds = {name: schema[name] for name in _BOUNDS if name in schema}
    if "pattern" in schema:
        node.pattern = _pattern(schema["pattern"])
    if "default" in schema:
        node.has_default, node.default = True, schema["default"]
    node.list_type = schema.get("x-kubernetes-list-type", "")
    node.atomic = node.list_type == "atomic" or schema.get("x-kubernetes-map-type") == "atomic"
    node.map_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    node.merge_key = schema.get("x-kubernetes-patch-merge-key", "")
    node.strategy = tuple(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(",")))
    node.any_of = tuple(_child(each, lookup) for each in schema.get("anyOf") or ())
    node.one_of = tuple(_child(each, lookup) for each in schema.get("oneOf") or ())
    rules = [each for each in schema.get("x-kubernetes-validations") or () if each.get("rule")]
    node.rules = tuple(_validation(each) for each in rules)
    below = [*(node.properties or {}).values(), node.additional, node.items]
    node.has_rules = bool(node.rules) or any(child is not None and child.has_rules for child in below)


def _validation(given: Obj) -> Validation:
    names = ("rule", "message", "messageExpression", "reason", "fieldPath")
    return Validation(*(str(given.get(name) or "") for name in names))


def _child(schema: Obj, lookup: Lookup | None) -> Node:
    reference = schema.get("$ref")
    if reference is None or lookup is None:
        return fill_node(Node(), schema, lookup)
    target = lookup(reference)
    if "x-kubernetes-patch-merge-key" not in schema and "x-kubernetes-patch-strategy" not in schema:
        return target
    node = Node()
    for slot in Node.__slots__:
        setattr(node, slot, getattr(target, slot))
    # What stands beside the reference belongs to this place, not to the type.
    node.merge_key = schema.get("x-kubernetes-patch-merge-key", "") or target.merge_key
    node.strategy = tuple(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(","))) or target.strategy
    return node


def _pattern(text: str) -> re.Pattern[str] | None:
    """Go's pattern as Python's; one that Python cannot compile checks nothing."""
    try:
        return re.compile(text)
    except re.error:
        return None
