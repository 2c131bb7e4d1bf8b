"""Durations: as the API writes them (Go's `5m`, `1h30m`, `3m41.5s`) and as people read them."""

from __future__ import annotations

import re
from decimal import Decimal

_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
_SECOND = 1_000_000_000  # in nanoseconds
_LONGEST = Decimal(2**63 - 1).scaleb(-9)  # in seconds: what fits into 64 bits as nanoseconds
_SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}


class InvalidDuration(ValueError):
    pass


def parse_duration(text: str) -> float:
    """Seconds. Raises InvalidDuration for text that Go would refuse."""
    return float(_parse(text))


def canonical_duration(text: str) -> str:
    """As Go writes back what it has read, to the nanosecond. Raises as `parse_duration` does."""
    return _show(int(_parse(text).scaleb(9)))


def format_duration(seconds: float) -> str:
    """As Go prints it, to the millisecond: `0s`, `1.5s`, `3m0s`, `1h0m5s`."""
    return _show(round(seconds * 1000) * 1_000_000)


def human_duration(seconds: int) -> str:
    """As kubectl says how long: `5s`, `3m20s`, `4h`, `12d`; more precise the shorter it is."""
    if seconds < 0:
        return "0s" if seconds >= -2 else "<invalid>"
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest = divmod(hours, 24)
    if days < 8:
        return f"{days}d{rest}h" if rest else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    years, rest = divmod(days, 365)
    if years < 8:
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


def _parse(text: str) -> Decimal:
    body, sign = text, 1
    if body[:1] in ("+", "-"):
        sign, body = (-1 if body[0] == "-" else 1), body[1:]
    if body == "0":
        return Decimal(0)
    total, rest = Decimal(0), body
    while rest or not body:
        part = _PART.match(rest)
        if part is None:
            raise InvalidDuration(f'time: invalid duration "{text}"')
        number, unit = part.groups()
        if not unit:
            raise InvalidDuration(f'time: missing unit in duration "{text}"')
        if unit not in _SECONDS:
            raise InvalidDuration(f'time: unknown unit "{unit}" in duration "{text}"')
        total, rest = total + Decimal(number) * _SECONDS[unit], rest[part.end() :]
    if total > _LONGEST:
        raise InvalidDuration(f'time: invalid duration "{text}"')
    return sign * total


def _show(nanoseconds: int) -> str:
    size, sign = abs(nanoseconds), "-" if nanoseconds < 0 else ""
    if not size:
        return "0s"
    for unit, length in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if size < 1000 * length:
            return f"{sign}{_decimal(size, length)}{unit}"
    minutes, rest = divmod(size, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(number: int, unit: int) -> str:
    whole, fraction = divmod(number, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)
