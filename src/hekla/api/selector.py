"""Label selectors, in their two spellings, and field selectors.

`parse_label_selector("a=b,c in (d,e),!f")` and `label_selector_from({"matchLabels": ...})` both give a Selector;
`parse_field_selector("metadata.name=x")` gives pairs. Malformed text raises InvalidSelector with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hekla.api.names import label_key_problems, label_value_problems

_TOKEN = re.compile(r"\s*(!=|==|=|!|>|<|\(|\)|,|[^\s!=<>(),]+)")
_SYMBOLS = frozenset({"!=", "==", "=", "!", ">", "<", "(", ")", ","})
_INTEGER = re.compile(r"[+-]?\d+")
_FIELD_OPERATOR = re.compile(r"!=|==|=")
_TERMS = re.compile(r"((?:\\.|[^\\,]|\\$)*)(?:,|$)", re.DOTALL)


class InvalidSelector(ValueError):
    pass


class Operator(Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return value is not None and self._compare(value)

    def _compare(self, value: str) -> bool:
        try:
            number, bound = int(value), int(self.values[0])
        except ValueError:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(requirement.matches(labels or {}) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


def parse_label_selector(text: str) -> Selector:
    return _Parser(text).selector()


def label_selector_from(selector: Mapping[str, Any] | None) -> Selector | None:
    """From a metav1.LabelSelector. None (an absent selector) stays None: what that means is the caller's rule."""
    if selector is None:
        return None
    requirements = [
        Requirement(key, Operator.IN, (str(value),))
        for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        try:
            operator = Operator(expression.get("operator"))
        except ValueError:
            raise InvalidSelector(f"{expression.get('operator')!r} is not a valid label selector operator") from None
        values = tuple(str(value) for value in expression.get("values") or ())
        if operator in (Operator.IN, Operator.NOT_IN) and not values:
            raise InvalidSelector("for 'in', 'notin' operators, values set can't be empty")
        requirements.append(Requirement(str(expression.get("key", "")), operator, values))
    return Selector(tuple(requirements))


def parse_field_selector(text: str) -> tuple[tuple[str, bool, str], ...]:
    """`a=b,c!=d` as (field, wanted equal, value). A backslash makes `,`, `=` and itself part of a value."""
    pairs: list[tuple[str, bool, str]] = []
    for term in filter(None, _TERMS.findall(text)):
        operator = _FIELD_OPERATOR.search(term)
        if operator is None:
            raise InvalidSelector(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: operator.start()].strip(), _unescaped(term[operator.end() :].strip())
        if field or value:
            pairs.append((field, operator[0] != "!=", value))
    return tuple(pairs)


def _unescaped(value: str) -> str:
    result, letters = "", iter(value)
    for letter in letters:
        if letter == "\\":
            letter = next(letters, "")
            if not letter or letter not in ",=\\":
                raise InvalidSelector(f"invalid field selector: invalid escape sequence: \\{letter}")
        elif letter in ",=":
            raise InvalidSelector(f"invalid field selector: unescaped character in value: {ord(letter)}")
        result += letter
    return result


class _Parser:
    """The grammar of the real server, with its words for what is wrong."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def selector(self) -> Selector:
        requirements: list[Requirement] = []
        while (found := self._look()) != "":
            if found in _SYMBOLS and found != "!":
                raise InvalidSelector(f"found '{found}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            found = self._take()
            if found not in ("", ","):
                raise InvalidSelector(f"found '{found}', expected: ',' or 'end of string'")
            if found == "," and (self._look() == "" or self._look() in _SYMBOLS - {"!"}):
                raise InvalidSelector(f"found '{self._look()}', expected: identifier after ','")
        return Selector(tuple(requirements))

    def _requirement(self) -> Requirement:
        if self._look() == "!":
            self._take()
            return Requirement(self._key(), Operator.DOES_NOT_EXIST)
        key = self._key()
        if self._look() in ("", ","):
            return Requirement(key, Operator.EXISTS)
        operator = self._take()
        match operator:
            case "in" | "notin":
                return _checked(Requirement(key, Operator.IN if operator == "in" else Operator.NOT_IN, self._values()))
            case "=" | "==":
                return _checked(Requirement(key, Operator.IN, (self._value(),)))
            case "!=":
                return _checked(Requirement(key, Operator.NOT_IN, (self._value(),)))
            case ">" | "<":
                bound = Operator.GREATER if operator == ">" else Operator.LESS
                return _checked(Requirement(key, bound, (self._value(),)))
        raise _wrong(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _key(self) -> str:
        key = self._identifier()
        problems = label_key_problems(key)
        if problems:
            raise _wrong(f"<nil>: Invalid value: {_quoted(key)}: {'; '.join(problems)}")
        return key

    def _value(self) -> str:
        return "" if self._look() in ("", ",") else self._identifier()

    def _values(self) -> tuple[str, ...]:
        opening = self._take()
        if opening != "(":
            raise _wrong(f"found '{opening}' expected: '('")
        if self._look() not in (")", ",") and self._look() in _SYMBOLS:
            raise _wrong(f"found '{self._look()}', expected: ',', ')' or identifier")
        values: list[str] = []
        while True:
            # Between two commas stands the empty value.
            values.append("" if self._look() in (",", ")") else self._identifier())
            found = self._take()
            if found == ")":
                return tuple(values)
            if found != ",":
                raise _wrong(f"found '{found}', expected: ',' or ')'")

    def _identifier(self) -> str:
        found = self._take()
        if found == "" or found in _SYMBOLS:
            raise _wrong(f"found '{found}', expected: identifier")
        return found

    def _look(self) -> str:
        """The next token; nothing at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        found = self._look()
        self._position += 1
        return found


def _checked(requirement: Requirement) -> Requirement:
    if requirement.operator in (Operator.GREATER, Operator.LESS) and not _INTEGER.fullmatch(requirement.values[0]):
        raise _wrong(
            f"values[0]: Invalid value: {_quoted(requirement.values[0])}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for place, value in enumerate(requirement.values):
        problems = label_value_problems(value)
        if problems:
            where = f"values[{place}][{requirement.key}]"
            raise _wrong(f"{where}: Invalid value: {_quoted(value)}: {'; '.join(problems)}")
    return requirement


def _wrong(why: str) -> InvalidSelector:
    return InvalidSelector(f"unable to parse requirement: {why}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
