"""CEL rules of a definition, as far as they are about which fields are there: `has(self.a) || has(self.b)`.

Rules about anything else are kept and shown, and not evaluated.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from hekla.apiserver.checking import same
from hekla.apiserver.invalid import Problem
from hekla.apiserver.schema import Node

Rule = Callable[[Any], int]

_TOKEN = re.compile(r"\s*(has\(self(?:\.\w+)+\)|\d+|\|\||&&|[<>=!]=|[-+<>!?:()])")
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
# What CEL cannot read as a name is written so; what else stands between such lines is a word of the language.
_ESCAPED = re.compile(r"__([a-z]+?)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_ADDED: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub}
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


def rule_problems(value: Any, node: Node, others: list[Problem], old: Any = None) -> list[Problem]:
    """What the rules say to a value of which `others` is wrong; what it has in common with `old` is let pass."""
    if not node.has_rules:
        return []
    if any(problem.reason in _BLOCKING for problem in others):
        return [Problem("<nil>", "FieldValueInvalid", _NOT_ASKED)]
    return list(_broken(value, node, "", old))


def _broken(value: Any, node: Node, path: str, old: Any) -> Iterator[Problem]:
    if not node.has_rules or value is None or (old is not None and same(old, value)):
        return
    for text, message in node.rules:
        rule = compile_rule(text)
        told = _told(rule, value, text, message) if rule is not None else ""
        if told:
            yield Problem(path, "FieldValueInvalid", f"Invalid value: {told}")
    if isinstance(value, dict):
        known = old if isinstance(old, dict) else {}
        for name, below in value.items():
            child, place = (node.properties or {}).get(name), f"{path}.{name}" if path else name
            if child is None:
                child, place = node.additional, f"{path}[{name}]"
            if child is not None:
                yield from _broken(below, child, place, known.get(name))
    elif isinstance(value, list) and node.items is not None:
        for index, below in enumerate(value):
            yield from _broken(below, node.items, f"{path}[{index}]", None)


def _told(rule: Rule, value: Any, text: str, message: str) -> str:
    """What to say of a value; empty where the rule holds."""
    try:
        return "" if rule(value) else message or f"failed rule: {text}"
    except _NoSuchKey as missing:
        return f'"object": no such key: {missing} evaluating rule: {message or text}'


@lru_cache(maxsize=256)
def compile_rule(text: str) -> Rule | None:
    """A rule as a function of the value it stands at; None for one that is about more than presence."""
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            return None
        tokens.append(found[1])
        position = found.end()
    parser = _Parser(tokens)
    try:
        rule = parser.choice()
    except _NotUnderstood:
        return None
    return rule if parser.at_end else None


class _NotUnderstood(Exception):
    pass


class _NoSuchKey(Exception):
    """What a field was looked for in is not there itself."""


class _Parser:
    """From the operator that binds least to the one that binds most."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def choice(self) -> Rule:
        condition = self._any()
        if not self._take("?"):
            return condition
        yes = self.choice()
        self._need(":")
        no = self.choice()
        return lambda value: yes(value) if condition(value) else no(value)

    def _any(self) -> Rule:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda value: _is_any(parts, value, True)

    def _all(self) -> Rule:
        parts = [self._comparison()]
        while self._take("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else lambda value: not _is_any(parts, value, False)

    def _comparison(self) -> Rule:
        left = self._sum()
        compare = _COMPARED.get(self._peek())
        if compare is None:
            return left
        self._next += 1
        right = self._sum()
        return lambda value: compare(left(value), right(value))

    def _sum(self) -> Rule:
        result = self._negation()
        while (add := _ADDED.get(self._peek())) is not None:
            self._next += 1
            result = _combined(add, result, self._negation())
        return result

    def _negation(self) -> Rule:
        if self._take("!"):
            inner = self._negation()
            return lambda value: not inner(value)
        if self._take("("):
            inner = self.choice()
            self._need(")")
            return inner
        token = self._peek()
        self._next += 1
        if token.isdigit():
            number = int(token)
            return lambda _: number
        if not token.startswith("has("):
            raise _NotUnderstood
        path = [_field(part) for part in token.removeprefix("has(self.").removesuffix(")").split(".")]
        return lambda value: _has(value, path)

    def _peek(self) -> str:
        return "" if self.at_end else self._tokens[self._next]

    def _take(self, token: str) -> bool:
        taken = self._peek() == token
        self._next += taken
        return taken

    def _need(self, token: str) -> None:
        if not self._take(token):
            raise _NotUnderstood


def _combined(add: Callable[[int, int], int], left: Rule, right: Rule) -> Rule:
    return lambda value: add(left(value), right(value))


def _field(name: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), name)


def _is_any(parts: list[Rule], value: Any, wanted: bool) -> bool:
    """Whether one of the parts is as wanted: then it does not matter what cannot be told of others."""
    unknown = None
    for part in parts:
        try:
            if bool(part(value)) is wanted:
                return True
        except _NoSuchKey as missing:
            unknown = unknown or missing
    if unknown is not None:
        raise unknown
    return False


def _has(value: Any, path: list[str]) -> bool:
    """Whether there is anything: a null is nothing."""
    *above, last = path
    for name in above:
        value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            raise _NoSuchKey(name)
    return isinstance(value, dict) and value.get(last) is not None
