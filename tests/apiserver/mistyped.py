"""A definition with a field of every sort, and what a server says of values that are not what each wants.

`tests/cluster/test_rules.py` asks a real one, too.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hekla.api.kinds import Obj
from hekla.client.rest import Client
from hekla.errors import Invalid
from tests.apiserver.rig import WIDGET, WIDGETS

_INTEGER_OR_TEXT = [{"type": "integer"}, {"type": "string"}]
_EITHER = [{"required": ["a"]}, {"required": ["b"]}]
_PAIR: Obj = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
_FIELDS: Obj = {
    "count": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
    "wide": {"type": "integer", "format": "int64"},
    "plain": {"type": "integer"},
    "real": {"type": "number", "format": "double"},
    "port": {"x-kubernetes-int-or-string": True},
    "amount": {"x-kubernetes-int-or-string": True, "anyOf": _INTEGER_OR_TEXT, "pattern": "^[0-9]+m?$"},
    "mode": {"type": "string", "enum": ["hard", "soft"]},
    "maybe": {"type": "string", "enum": ["a", "b"], "maxLength": 3, "nullable": True},
    "at": {"type": "string", "format": "date-time"},
    "some": {**_PAIR, "anyOf": _EITHER},
    "one": {**_PAIR, "oneOf": _EITHER},
    "few": {"type": "array", "maxItems": 1, "items": {"type": "integer", "minimum": 3}},
    "numbers": {"type": "object", "additionalProperties": {"type": "integer"}},
    "words": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    "wild": {"x-kubernetes-preserve-unknown-fields": True},
}


def _no(field: str, found: str, wanted: str) -> str:
    return f'spec.{field}: Invalid value: "{found}": spec.{field} in body must be of type {wanted}: "{found}"'


def _range(field: str, how: str) -> str:
    return f'<nil>: Invalid value: "": Checked value must be of type integer {how} in spec.{field}'


def _unsupported(field: str, value: str, supported: str) -> str:
    return f"spec.{field}: Unsupported value: {value}: supported values: {supported}"


_LEAST = "spec.count in body should be greater than or equal to 0"
_MOST = "spec.count in body should be less than or equal to 9"
_ANY = '<nil>: Invalid value: "": "spec.amount" must validate at least one schema (anyOf)'
_ONE = '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found'
_NO_ITEM = "must be an object for an array of list-type map"

# What is given, and all that is said of it.
TOLD: list[tuple[Obj, list[str]]] = [
    ({"count": "x"}, [_no("count", "string", "integer")]),
    ({"count": []}, [_no("count", "array", "integer")]),
    ({"count": {}}, [_no("count", "", "int32")]),
    ({"count": True}, [_no("count", "", "int32")]),
    ({"count": 1.5}, [_no("count", "float64", "int32"), _range("count", "with format int32")]),
    (
        {"count": -1.5},
        [
            _no("count", "float64", "int32"),
            _range("count", "with format int32"),
            f"spec.count: Invalid value: -1.5: {_LEAST}",
        ],
    ),
    ({"count": 1 << 31}, [_range("count", "with format int32"), f"spec.count: Invalid value: 2147483648: {_MOST}"]),
    ({"wide": 1.5}, [_no("wide", "float64", "int64"), _range("wide", "with format int64")]),
    ({"wide": 10**20}, [_no("wide", "float64", "int64"), _range("wide", "with format int64")]),
    ({"plain": True}, [_no("plain", "boolean", "integer")]),
    ({"plain": 10**20}, [_no("plain", "number", "integer"), _range("plain", "(default format)")]),
    ({"plain": 2.0}, []),
    ({"real": True}, [_no("real", "", "double")]),
    ({"real": 1}, []),
    ({"port": 1.5}, [_no("port", "number", "integer,string")]),
    ({"port": True}, [_no("port", "boolean", "integer,string")]),
    ({"port": None}, []),
    (
        {"amount": 1.5},
        [
            _no("amount", "number", "integer,string"),
            _ANY,
            _no("amount", "number", "integer"),
            _range("amount", "(default format)"),
        ],
    ),
    ({"amount": []}, [_no("amount", "array", "integer,string"), _ANY, _no("amount", "array", "integer")]),
    ({"amount": "much"}, ["spec.amount: Invalid value: \"much\": spec.amount in body should match '^[0-9]+m?$'"]),
    ({"amount": -1}, []),
    ({"amount": None}, []),
    ({"mode": 5}, [_no("mode", "integer", "string"), _unsupported("mode", "5", '"hard", "soft"')]),
    ({"mode": {}}, [_no("mode", "object", "string"), _unsupported("mode", "{}", '"hard", "soft"')]),
    ({"maybe": None}, [_unsupported("maybe", "null", '"a", "b"')]),
    (
        {"maybe": "long"},
        ["spec.maybe: Too long: may not be more than 3 bytes", _unsupported("maybe", '"long"', '"a", "b"')],
    ),
    ({"at": "soon"}, [_no("at", "soon", "date-time")]),
    ({"at": "2026-02-30T00:00:00Z"}, [_no("at", "2026-02-30T00:00:00Z", "date-time")]),
    ({"at": 5}, [_no("at", "int64", "date-time")]),
    ({"at": True}, [_no("at", "", "date-time")]),
    ({"at": []}, []),
    ({"at": "2026-01-01t00:00:00.5+02:00"}, []),
    (
        {"some": {}},
        [
            '<nil>: Invalid value: "": "spec.some" must validate at least one schema (anyOf)',
            "spec.some.a: Required value",
        ],
    ),
    ({"one": {}}, [f"{_ONE} none valid", "spec.one.a: Required value"]),
    ({"one": {"a": "x", "b": "x"}}, [f"{_ONE} 2 valid alternatives"]),
    (
        {"few": [1, 4]},
        [
            "spec.few[0]: Invalid value: 1: spec.few[0] in body should be greater than or equal to 3",
            "spec.few: Too many: 2: must have at most 1 item",
        ],
    ),
    ({"parts": ["x"]}, [_no("parts[0]", "string", "object"), f'spec.parts[0]: Invalid value: "x": {_NO_ITEM}']),
    ({"parts": [None]}, [_no("parts[0]", "null", "object")]),
    ({"numbers": {"a": None}}, []),
    ({"numbers": {"a": "x"}}, [_no("numbers.a", "string", "integer")]),
    ({"words": {"a": None}}, []),
    ({"wild": None}, []),
]


def mistyped_widgets() -> Obj:
    definition: Any = deepcopy(WIDGETS)
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] |= _FIELDS
    del spec["required"]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition}


async def causes(client: Client, spec: Obj) -> list[str]:
    """All that a server has against a widget."""
    widget: Obj = {"metadata": {"generateName": "w-", "namespace": "default"}, "spec": spec}
    try:
        await client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": WIDGET.kind, **widget})
    except Invalid as refused:
        return sorted(f"{cause['field']}: {cause['message']}" for cause in (refused.details or {})["causes"])
    return []
