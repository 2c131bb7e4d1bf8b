"""Times as they are written in objects: to the second, or to the microsecond where the kind says so."""

from __future__ import annotations

import calendar
import json
import re

_DAY = r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_ZONE = r"(Z|[+-]([01]\d|2[0-4]):([0-5]\d|60))"
_SECONDS = re.compile(rf"{_DAY}([.,]\d+)?{_ZONE}", re.ASCII)
_MICROSECONDS = re.compile(rf"{_DAY}[.,]\d{{6}}{_ZONE}", re.ASCII)
# What is read one after another: how Go's layout has it, what may stand there, and what the number may be.
_STEPS: tuple[tuple[str, str, str, range], ...] = (
    ("2006", r"\d{4}", "year", range(10000)), ("-", "-", "", range(0)),
    ("01", r"\d\d", "month", range(1, 13)), ("-", "-", "", range(0)),
    ("02", r"\d\d", "day", range(1, 32)), ("T", "T", "", range(0)),
    ("15", r"\d\d", "hour", range(24)), (":", ":", "", range(0)),
    ("04", r"\d\d", "minute", range(60)), (":", ":", "", range(0)),
    ("05", r"\d\d", "second", range(60)),
)  # fmt: skip


def time_fault(text: str, *, micro: bool = False) -> str:
    """What is wrong with a time, in Go's words; nothing for one that is right."""
    found = (_MICROSECONDS if micro else _SECONDS).fullmatch(text)
    if found is None:
        return _fault(text, micro)
    day = int(found[3])
    if day > 28 and day > calendar.monthrange(int(found[1]) or 4, int(found[2]))[1]:
        return f"parsing time {json.dumps(text)}: day out of range"
    return ""


def _fault(text: str, micro: bool) -> str:
    fraction = ".000000" if micro else ""
    layout, rest = f"2006-01-02T15:04:05{fraction}Z07:00", text
    for word, pattern, name, allowed in _STEPS:
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            return _unreadable(text, layout, rest, word)
        if name and int(found[0]) not in allowed:
            return f"parsing time {json.dumps(text)}: {name} out of range"
        rest = rest[found.end() :]
    found = re.match(r"[.,]\d{6}" if micro else r"([.,]\d+)?", rest, re.ASCII)
    if found is None:
        return _unreadable(text, layout, rest, fraction)
    rest = rest[found.end() :]
    found = re.match(r"Z|[+-](\d\d):(\d\d)", rest, re.ASCII)
    if found is None:
        return _unreadable(text, layout, rest, "Z07:00")
    for name, number, most in (("hour", found[1], 24), ("minute", found[2], 60)):
        if int(number or 0) > most:
            return f"parsing time {json.dumps(text)}: time zone offset {name} out of range"
    return f"parsing time {json.dumps(text)}: extra text: {json.dumps(rest[found.end() :])}"


def _unreadable(text: str, layout: str, rest: str, word: str) -> str:
    return f'parsing time {json.dumps(text)} as "{layout}": cannot parse {json.dumps(rest)} as "{word}"'
