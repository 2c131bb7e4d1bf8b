"""The little of CEL that is evaluated: which fields are there, and texts put together of fields and words.

`has(self.a) || has(self.b)` is a rule, `'b is ' + self.b` a message.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Rule = Callable[[Any], Any]

_PRESENCE = r"has\(self(?:\.\w+)+\)|\d+|\|\||&&|[<>=!]=|[-+<>!?:()]"
_TEXT = r"""self(?:\.\w+)+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_IN_RULES = re.compile(rf"\s*({_PRESENCE})")
_IN_MESSAGES = re.compile(rf"\s*({_PRESENCE}|{_TEXT})")
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
# What CEL cannot read as a name is written so; what else stands between such lines is a word of the language.
_ESCAPED = re.compile(r"__([a-z]+?)__")
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_IN_TEXT = re.compile(r"\\(.)")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?"}
_ADDED: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub}


class NoSuchKey(Exception):
    """What a field was looked for in is not there itself, or a text is none."""


@lru_cache(maxsize=256)
def compile_rule(text: str) -> Rule | None:
    """A rule as a function of the value it stands at; None for one that is about more than presence."""
    return _compile(text, _IN_RULES)


@lru_cache(maxsize=256)
def compile_message(text: str) -> Rule | None:
    """A message as a function of the value it is about; None for one that takes more than fields and words."""
    return _compile(text, _IN_MESSAGES)


def _compile(text: str, words: re.Pattern[str]) -> Rule | None:
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        found = words.match(text, position)
        if found is None:
            return None
        tokens.append(found[1])
        position = found.end()
    parser = _Parser(tokens)
    try:
        rule = parser.choice()
    except (_NotUnderstood, RecursionError):
        return None
    return rule if parser.at_end else None


class _NotUnderstood(Exception):
    pass


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
        if token[:1] in ("'", '"'):
            words = _IN_TEXT.sub(_letter, token[1:-1])
            return lambda _: words
        if token.startswith("self."):
            field = [_field(part) for part in token.split(".")[1:]]
            return lambda value: _text(value, field)
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
        except NoSuchKey as missing:
            unknown = unknown or missing
    if unknown is not None:
        raise unknown
    return False


def _has(value: Any, path: list[str]) -> bool:
    """Whether there is anything: a null is nothing."""
    *above, last = path
    value = _at(value, above)
    return isinstance(value, dict) and value.get(last) is not None


def _text(value: Any, path: list[str]) -> str:
    found = _at(value, path)
    if not isinstance(found, str):
        raise NoSuchKey(path[-1])
    return found


def _at(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            raise NoSuchKey(name)
    return value


def _letter(escaped: re.Match[str]) -> str:
    if escaped[1] not in _LETTERS:
        raise _NotUnderstood
    return _LETTERS[escaped[1]]
