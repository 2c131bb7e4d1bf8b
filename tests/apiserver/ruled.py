"""A definition whose rules say in every way what is wrong, and what a server says of a value that breaks each.

`tests/cluster/test_parity.py` asks a real one, too.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hekla.api.kinds import Obj
from tests.apiserver.rig import WIDGETS

_TEXT: Obj = {"type": "string", "maxLength": 10}
_INNER: Obj = {"type": "object", "properties": {"x": _TEXT}}
_FIELDS: Obj = {
    "a": _TEXT, "b": _TEXT, "c": _INNER, "x.y": _TEXT, "m": {"type": "object", "additionalProperties": _TEXT},
}  # fmt: skip
_SAID = "Invalid value: m"
_MADE = "' b is ' + self.b + ' '"

# Name of the field, what its rule says, and for each value what is said of it, and of what below the field.
_CASES: list[tuple[str, Obj, list[tuple[Obj, str, str]]]] = [
    ("forbidden", {"reason": "FieldValueForbidden"}, [({}, "", "Forbidden: m")]),
    ("required", {"reason": "FieldValueRequired"}, [({}, "", "Required value: m"), ({"a": "x"}, "", "")]),
    ("duplicate", {"reason": "FieldValueDuplicate"}, [({}, "", "Duplicate value")]),
    ("invalid", {"reason": "FieldValueInvalid"}, [({}, "", _SAID)]),
    ("unsaid", {"message": "", "reason": "FieldValueForbidden"}, [({}, "", "Forbidden: failed rule: has(self.a)")]),
    ("field", {"fieldPath": ".a"}, [({}, ".a", _SAID)]),
    ("deeper", {"fieldPath": ".c.x", "reason": "FieldValueRequired"}, [({}, ".c.x", "Required value: m")]),
    ("quoted", {"fieldPath": "['x.y']"}, [({}, ".x.y", _SAID)]),
    ("entry", {"fieldPath": ".m['k']"}, [({}, ".m[k]", _SAID)]),
    ("entryByName", {"fieldPath": ".m.k"}, [({}, ".m[k]", _SAID)]),
    ("made", {"messageExpression": _MADE}, [({"b": "x"}, "", "Invalid value: b is x"), ({}, "", _SAID)]),
    (
        "madeOrUnsaid",
        {"message": "", "messageExpression": _MADE},
        [({"b": "x"}, "", "Invalid value: b is x"), ({}, "", "Invalid value: failed rule: has(self.a)")],
    ),
    (
        "chosen",
        {"messageExpression": "has(self.b) ? 'with ' + self.b : \"without\"", "reason": "FieldValueForbidden"},
        [({"b": "x"}, "", "Forbidden: with x"), ({}, "", "Forbidden: without")],
    ),
    ("empty", {"messageExpression": "''"}, [({}, "", _SAID)]),
    ("blank", {"messageExpression": "'  '"}, [({}, "", _SAID)]),
    ("lines", {"messageExpression": r"'a\nb'"}, [({}, "", _SAID)]),
    (
        "unknown",
        {"rule": "has(self.c.x)", "reason": "FieldValueForbidden", "fieldPath": ".a", "messageExpression": "'made'"},
        [({}, "", 'Invalid value: "object": no such key: c evaluating rule: m')],
    ),
]
TOLD: list[tuple[str, Obj, str]] = [
    (name, value, f"spec.{name}{below}: {told}" if told else "")
    for name, _, values in _CASES
    for value, below, told in values
]


def ruled_widgets() -> Obj:
    definition = deepcopy(WIDGETS)
    fields = {name: _ruled(**said) for name, said, _ in _CASES}
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = {"type": "object", "properties": fields}
    return definition


def _ruled(**said: Any) -> Obj:
    rule = {"rule": "has(self.a)", "message": "m", **said}
    given = {name: value for name, value in rule.items() if value}
    return {"type": "object", "properties": _FIELDS, "x-kubernetes-validations": [given]}
