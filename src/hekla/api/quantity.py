"""Kubernetes quantities: `500m`, `2Gi`, `1e3`.

Exact: `parse` gives a Decimal; `milli` and `whole` round up, as the Kubernetes accessors do. Formatting gives the
canonical text the API server itself would store.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache

_PATTERN = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_MAX_DIGITS = 64
_MOST_WHOLE_DIGITS = _MAX_DIGITS - 8  # so that what was read, with its sign and suffix, can be read again when written


class InvalidQuantity(ValueError):
    """The text is not a quantity; the message is the API server's own."""

    def __init__(self, text: object) -> None:
        super().__init__("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
        self.text = text


@lru_cache(maxsize=4096)
def parse(text: str | int | float) -> Decimal:
    """The exact value. Ints and floats are what a YAML writer may use in place of text."""
    source = str(text)
    match = _PATTERN.fullmatch(source) if len(source) <= _MAX_DIGITS else None
    if match is None:
        raise InvalidQuantity(text)
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _BINARY:
        value = number * _BINARY[suffix]
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        if abs(exponent) > _MAX_DIGITS:
            raise InvalidQuantity(text)
        value = number.scaleb(exponent)
    if value and value.adjusted() >= _MOST_WHOLE_DIGITS:
        raise InvalidQuantity(text)
    return value


# The same few amounts come with every pod; all of these are plain functions of their argument.
@lru_cache(maxsize=4096, typed=True)
def milli(text: str | int | float) -> int:
    """Thousandths, rounded up: the unit of CPU."""
    return _ceiling(parse(text) * 1000)


@lru_cache(maxsize=4096, typed=True)
def whole(text: str | int | float) -> int:
    """Whole units, rounded up: bytes, GPUs, pods."""
    return _ceiling(parse(text))


@lru_cache(maxsize=4096)
def format_decimal(value: Decimal | int) -> str:
    """Canonical decimal form: the largest suffix that keeps the number whole (`1500m`, `2`, `3k`)."""
    value = Decimal(value)
    if value == 0:
        return "0"
    for exponent in (18, 15, 12, 9, 6, 3, 0, -3, -6, -9):
        scaled = value.scaleb(-exponent)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{_DECIMAL_SUFFIX[exponent]}"
    return f"{_ceiling(value.scaleb(9))}n"


@lru_cache(maxsize=4096)
def format_binary(value: Decimal | int) -> str:
    """Canonical binary form: `2Gi`, `100Mi`, or plain digits when no binary suffix divides the number."""
    value = Decimal(value)
    if value != value.to_integral_value():
        return format_decimal(value)
    number = int(value)
    for suffix, factor in reversed(_BINARY.items()):
        if number and number % factor == 0:
            return f"{number // factor}{suffix}"
    return str(number)


@lru_cache(maxsize=4096, typed=True)
def canonical(text: str | int | float) -> str:
    """The form the API server stores: same value and same family (binary or decimal) as the input."""
    if str(text)[-1:] == "i":
        return format_binary(parse(text))
    return format_decimal(parse(text))


def _ceiling(value: Decimal) -> int:
    with localcontext() as context:
        context.prec = 2 * _MAX_DIGITS
        return int(value.to_integral_value(ROUND_CEILING))
