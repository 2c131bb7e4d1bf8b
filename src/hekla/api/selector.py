"""Label selectors, in their two spellings, and field selectors.

`parse_label_selector("a=b,c in (d,e),!f")` and `label_selector_from({"matchLabels": ...})` both give a Selector;
`parse_field_selector("metadata.name=x")` gives pairs. Malformed text raises InvalidSelector with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"\s*(!=|==|=|!|>|<|\(|\)|,|[^\s!=<>(),]+)")


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
    tokens = _tokens(text)
    requirements: list[Requirement] = []
    position = 0
    while position < len(tokens):
        requirement, position = _requirement(tokens, position)
        requirements.append(requirement)
        if position < len(tokens):
            if tokens[position] != "," or position + 1 == len(tokens):
                raise InvalidSelector(
                    f"unable to parse requirement: found '{tokens[position]}', expected: ',' or 'end of string'"
                )
            position += 1
    return Selector(tuple(requirements))


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
    """`a=b,c!=d` as (field, wanted equal, value)."""
    pairs: list[tuple[str, bool, str]] = []
    for term in filter(None, text.split(",")):
        for separator, equal in (("!=", False), ("==", True), ("=", True)):
            field, found, value = term.partition(separator)
            if found:
                pairs.append((field.strip(), equal, value.strip()))
                break
        else:
            raise InvalidSelector(f"invalid selector: '{text}'; can't understand '{term}'")
    return tuple(pairs)


def _tokens(text: str) -> list[str]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidSelector(f"unable to parse requirement: unexpected character at {position}")
        tokens.append(match[1])
        position = match.end()
    return tokens


def _requirement(tokens: list[str], position: int) -> tuple[Requirement, int]:
    if tokens[position] == "!":
        return Requirement(_key(tokens, position + 1), Operator.DOES_NOT_EXIST), position + 2
    key = _key(tokens, position)
    operator = tokens[position + 1] if position + 1 < len(tokens) else ","
    if operator == ",":
        return Requirement(key, Operator.EXISTS), position + 1
    if operator in ("=", "==", "!="):
        value, position = _value(tokens, position + 2)
        return Requirement(key, Operator.NOT_IN if operator == "!=" else Operator.IN, (value,)), position
    if operator in (">", "<"):
        value, position = _value(tokens, position + 2)
        if not re.fullmatch(r"[+-]?\d+", value):
            raise InvalidSelector(
                f"values[0][{key}]: Invalid value: {value!r}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return Requirement(key, Operator.GREATER if operator == ">" else Operator.LESS, (value,)), position
    if operator in ("in", "notin"):
        values, position = _values(tokens, position + 2)
        return Requirement(key, Operator.IN if operator == "in" else Operator.NOT_IN, values), position
    raise InvalidSelector(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _key(tokens: list[str], position: int) -> str:
    key = tokens[position] if position < len(tokens) else ""
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))):
        raise InvalidSelector(f"unable to parse requirement: <nil>: Invalid value: {key!r}: not a valid label key")
    return key


def _value(tokens: list[str], position: int) -> tuple[str, int]:
    if position >= len(tokens) or tokens[position] == ",":
        return "", position
    value = tokens[position]
    if value in ("(", ")", "=", "==", "!=", "!", ">", "<") or not _NAME.fullmatch(value):
        raise InvalidSelector(f"unable to parse requirement: <nil>: Invalid value: {value!r}: not a valid label value")
    return value, position + 1


def _values(tokens: list[str], position: int) -> tuple[tuple[str, ...], int]:
    if position >= len(tokens) or tokens[position] != "(":
        raise InvalidSelector("unable to parse requirement: found '', expected: '('")
    values: list[str] = []
    position += 1
    while position < len(tokens) and tokens[position] != ")":
        value, position = _value(tokens, position)
        values.append(value)
        if position < len(tokens) and tokens[position] == ",":
            position += 1
    if position >= len(tokens):
        raise InvalidSelector("unable to parse requirement: found '', expected: ',' or ')'")
    return tuple(values or [""]), position + 1
