"""CEL rules of a definition, as far as they are evaluated (`cel.py`): what is broken, and what is said of it.

Rules about anything else are kept and shown, and not evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hekla.apiserver.cel import NoSuchKey, compile_message, compile_rule
from hekla.apiserver.checking import same
from hekla.apiserver.invalid import Problem
from hekla.apiserver.schema import Node, Validation

# What is wrong in these ways keeps the real server from asking the rules at all.
_BLOCKING = frozenset(
    {
        "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)  # fmt: skip
_NOT_ASKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_INVALID = "FieldValueInvalid"
# What is said of a broken rule, by the reason it gives.
_TOLD = {
    _INVALID: "Invalid value: {}",
    "FieldValueForbidden": "Forbidden: {}",
    "FieldValueRequired": "Required value: {}",
    "FieldValueDuplicate": "Duplicate value",
}
_LONGEST_MESSAGE = 5120
_STEP = re.compile(r"\.([^.\[]+)|\['((?:[^'\\]|\\.)*)'\]")


def rule_problems(value: Any, node: Node, others: list[Problem], old: Any = None) -> list[Problem]:
    """What the rules say to a value of which `others` is wrong; what it has in common with `old` is let pass."""
    if not node.has_rules:
        return []
    if any(problem.reason in _BLOCKING for problem in others):
        return [Problem("<nil>", _INVALID, _NOT_ASKED)]
    return list(_broken(value, node, "", old))


def _broken(value: Any, node: Node, path: str, old: Any) -> Iterator[Problem]:
    if not node.has_rules or value is None or (old is not None and same(old, value)):
        return
    for rule in node.rules:
        yield from _judged(rule, value, node, path)
    if isinstance(value, dict):
        known = old if isinstance(old, dict) else {}
        for name, below in value.items():
            child, place = _below(node, path, name)
            if child is not None:
                yield from _broken(below, child, place, known.get(name))
    elif isinstance(value, list) and node.items is not None:
        for index, below in enumerate(value):
            yield from _broken(below, node.items, f"{path}[{index}]", None)


def _judged(rule: Validation, value: Any, node: Node, path: str) -> Iterator[Problem]:
    holds = compile_rule(rule.rule)
    try:
        if holds is None or holds(value):
            return
    except NoSuchKey as missing:
        told = f'Invalid value: "object": no such key: {missing} evaluating rule: {rule.message or rule.rule}'
        yield Problem(path, _INVALID, told)
        return
    reason = rule.reason if rule.reason in _TOLD else _INVALID
    yield Problem(_pointed_at(rule.field_path, node, path), reason, _TOLD[reason].format(_message(rule, value)))


def _message(rule: Validation, value: Any) -> str:
    """The one that is made for the value, where that can be had in one line."""
    make = compile_message(rule.message_expression) if rule.message_expression else None
    try:
        made = make(value) if make is not None else ""
    except (NoSuchKey, TypeError):
        # What adds a number to a text is refused by the real server with its definition.
        made = ""
    text = made.strip() if isinstance(made, str) else ""
    if text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text and "\r" not in text:
        return text
    return rule.message or f"failed rule: {rule.rule}"


def _pointed_at(field_path: str, node: Node, path: str) -> str:
    """The field that a rule is said to be about, below the place where it stands."""
    found: Node | None = node
    for step in _STEP.finditer(field_path):
        found, path = _below(found, path, step[1] or step[2])
    return path


def _below(node: Node | None, path: str, name: str) -> tuple[Node | None, str]:
    """What is under a name, and where that is: a field of its own, or an entry of a map."""
    child = (node.properties or {}).get(name) if node is not None else None
    if child is None and node is not None and node.additional is not None:
        return node.additional, f"{path}[{name}]"
    return child, f"{path}.{name}" if path else name
