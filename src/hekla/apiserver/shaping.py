"""Giving an object the shape of its kind: unknown fields go, defaults come, wrong types are named.

`decode_shape` is for Kubernetes' own kinds and behaves as decoding into a Go struct does. `prune`, `drop_nulls` and
`fill_defaults` are for custom resources and follow their structural schema. All change the object in place.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, canonical
from hekla.apiserver.schema import ANYTHING, Node
from hekla.apiserver.times import time_fault

_SCALARS: dict[str, tuple[type, ...]] = {"integer": (int,), "boolean": (bool,), "int-or-string": (int, str)}
_INT32 = 2**31
_BASE64 = re.compile(r"[A-Za-z0-9+/]*")
_GO_VALUES: dict[type, str] = {str: "string", list: "array", dict: "object"}


class WrongType(Exception):
    """The object cannot be decoded; the message is Go's."""


def decode_shape(
    value: Obj, node: Node, unknown: list[str], path: str = "", *, but: frozenset[str] = frozenset()
) -> None:
    """Drop nulls and unknown fields (noting their paths), write quantities canonically. Raises WrongType.

    Fields named in `but` are left as they are.
    """
    properties = node.properties
    if properties is None:
        return
    for name in list(value):
        below = value[name]
        child = properties.get(name)
        if name in but:
            continue
        if child is None:
            unknown.append(f"{path}{name}")
            del value[name]
        elif below is None:
            del value[name]
        elif child.quantity:
            value[name] = _quantity(below)
        elif not (child.is_text and type(below) is str):
            _decode_value(below, child, unknown, f"{path}{name}", node)


def _decode_value(value: Any, node: Node, unknown: list[str], path: str, parent: Node) -> None:
    if node.open:
        return
    type_ = node.type
    if type_ == "string":
        if type(value) is not str:
            raise _wrong(value, node, path, parent)
        if node.format == "byte":
            _check_base64(value)
        elif node.format == "date-time":
            _check_time(value, node)
    elif type_ == "object":
        if type(value) is not dict:
            raise _wrong(value, node, path, parent)
        if node.properties is not None:
            decode_shape(value, node, unknown, path + ".")
        elif node.additional is not None:
            _decode_map(value, node.additional, unknown, path, parent)
    elif type_ == "array":
        if type(value) is not list:
            raise _wrong(value, node, path, parent)
        if node.items is not None:
            _decode_list(value, node.items, unknown, path, parent)
    elif not _is_scalar(value, node):
        raise _wrong(value, node, path, parent)


def _is_scalar(value: Any, node: Node) -> bool:
    wanted = _SCALARS.get("int-or-string" if node.int_or_string else node.type)
    if wanted is not None and type(value) not in wanted:
        return False
    small = node.format == "int32" or node.int_or_string
    return not small or type(value) is not int or -_INT32 <= value < _INT32


def _check_base64(text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        # Go reads over the ends of lines.
        written = text.replace("\r", "").replace("\n", "")
        if written != text:
            _check_base64(written)
            return
        raise WrongType(f"illegal base64 data at input byte {_wrong_byte(text)}") from None


def _wrong_byte(text: str) -> int:
    """Where Go stops to read base64."""
    good = len(_BASE64.match(text)[0])  # type: ignore[index]
    place = good % 4
    if good == len(text):
        return good - place
    if text[good] != "=" or place < 2:
        return good
    if place == 3:
        return good + 1
    if good + 1 == len(text):
        return len(text)
    return good + 2 if text[good + 1] == "=" else good


def _check_time(text: str, node: Node) -> None:
    fault = time_fault(text, micro=node.name.endswith(".MicroTime"))
    if fault:
        raise WrongType(fault)


def _decode_map(value: dict[str, Any], node: Node, unknown: list[str], path: str, parent: Node) -> None:
    if node.quantity:
        for name, below in value.items():
            value[name] = _quantity(0 if below is None else below)
        return
    if node.is_text and all(type(below) is str for below in value.values()):
        return
    for name, below in list(value.items()):
        if below is None:
            # parity: Go decodes null in a map of strings as the empty string.
            value[name] = "" if node.type == "string" else {}
        else:
            _decode_value(below, node, unknown, f"{path}[{name}]", parent)


def _decode_list(value: list[Any], node: Node, unknown: list[str], path: str, parent: Node) -> None:
    # parity: Go decodes null in a list as the element's zero value.
    if node.type == "string":
        for index, below in enumerate(value):
            if below is None:
                value[index] = ""
            elif type(below) is not str:
                raise _wrong(below, node, path, parent)
        return
    for index, below in enumerate(value):
        if below is None:
            value[index] = {} if node.type == "object" else [] if node.type == "array" else 0
        else:
            _decode_value(below, node, unknown, f"{path}[{index}]", parent)


def _quantity(value: Any) -> str:
    if type(value) not in (str, int, float):
        raise WrongType(f"json: cannot unmarshal {_go_value(value)} into Go value of type resource.Quantity")
    try:
        return canonical(value)
    except InvalidQuantity as error:
        raise WrongType(str(error)) from None


def _wrong(value: Any, node: Node, path: str, parent: Node) -> WrongType:
    owner = parent.name.rpartition(".")[2]
    dotted = "".join(part if "]" not in part else part.partition("]")[2] for part in path.split("["))
    return WrongType(
        f"json: cannot unmarshal {_shown(value, node)} into Go struct field {owner}.{dotted} of type {_go(node)}"
    )


def _shown(value: Any, node: Node) -> str:
    """A number that is none of the wanted ones is shown, other values are named."""
    kind = _go_value(value)
    return f"number {value}" if kind == "number" and (node.type == "integer" or node.int_or_string) else kind


def _go_value(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return _GO_VALUES.get(type(value), "null")


def _go(node: Node) -> str:
    if node.name:
        parts = node.name.split(".")
        return f"{parts[-2]}.{parts[-1]}"
    if node.type == "array" and node.items is not None:
        return f"[]{_go(node.items)}"
    if node.type == "object" and node.additional is not None:
        return f"map[string]{_go(node.additional)}"
    if node.type == "integer":
        return node.format or "int"
    return {"boolean": "bool", "number": "float64"}.get(node.type, "string")


def prune(value: Any, node: Node, unknown: list[str], path: str = "") -> None:
    """Drop what a structural schema does not describe."""
    if isinstance(value, dict):
        _prune_object(value, node, unknown, path)
    elif isinstance(value, list) and node.items is not None:
        for index, below in enumerate(value):
            prune(below, node.items, unknown, f"{path}[{index}]")


def _prune_object(value: Obj, node: Node, unknown: list[str], path: str) -> None:
    properties = node.properties or {}
    for name in sorted(value):
        here = f"{path}.{name}" if path else name
        child = properties.get(name) or node.additional
        if child is not None:
            prune(value[name], child, unknown, here)
        elif node.embedded and name in ("apiVersion", "kind", "metadata"):
            continue
        elif not node.open:
            unknown.append(here)
            del value[name]


def drop_nulls(value: Any, node: Node, *, but: frozenset[str] = frozenset()) -> None:
    """Take a null where a structural schema does not allow one for a field that is absent.

    Of a map of lists it is taken for an empty one: `svc:` with nothing behind it asks for a plugin without arguments.
    Fields named in `but` are left as they are.
    """
    if isinstance(value, dict):
        properties = node.properties or {}
        for name, below in list(value.items()):
            described = properties.get(name) or node.additional
            if below is None and described is not None and described is not ANYTHING and not described.nullable:
                if described is node.additional and described.type == "array":
                    value[name] = []
                else:
                    del value[name]
            elif isinstance(below, dict | list) and name not in but and described is not None:
                drop_nulls(below, described)
    elif isinstance(value, list) and node.items is not None:
        for below in value:
            drop_nulls(below, node.items)


def fill_defaults(value: Any, node: Node, *, but: frozenset[str] = frozenset()) -> None:
    """Fill in what a structural schema gives defaults for, in place of a null that is not allowed, too.

    Fields named in `but` are left as they are.
    """
    if isinstance(value, dict):
        for name, child in node.defaults:
            if name not in value or (value[name] is None and not child.nullable):
                value[name] = _copy(child.default)
        properties = node.properties or {}
        for name, below in value.items():
            if isinstance(below, dict | list) and name not in but:
                described = properties.get(name) or node.additional
                if described is not None:
                    fill_defaults(below, described)
    elif isinstance(value, list) and node.items is not None:
        for below in value:
            fill_defaults(below, node.items)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_copy(below) for below in value]
    return value
