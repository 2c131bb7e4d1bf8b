"""What a scalar of a YAML file stands for, read as kubectl reads it: one file must mean the same to both.

The letter of YAML 1.1, by which Python's parser goes, makes a number in base sixty of 22:22 and a text of 1e3.
"""

from __future__ import annotations

import base64
import binascii
import math
import re

Scalar = str | int | float | bool | None

_STANDARD = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{form: True for word in ("y", "yes", "true", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "false", "off") for form in (word, word.capitalize(), word.upper())},
}
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WHOLE = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]{1,64})|0[bB]([01]{1,64})|0[oO]?([0-7]{1,64})|([0-9]|[1-9][0-9]{1,64}))"
)
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1
_WRITTEN_WHOLE = 1e21  # floats below it go over the wire as whole numbers, if they are whole
_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}


def read_scalar(text: str, tag: str, *, plain: bool) -> Scalar:
    """What it stands for; `plain` is one without quotes. Raises ValueError with what is wrong with it."""
    name = tag.removeprefix(_STANDARD)
    if name == "binary":
        return _unpacked(text)
    if name in _TYPES:
        value = _resolved(text)
        if type(value) not in _TYPES[name]:
            raise ValueError(f"{text!r} is no {name}")
        return value
    return text if tag or not plain else _resolved(text)


def _resolved(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if _NO_NUMBER.fullmatch(text):
        raise ValueError(f"{text} is a number that JSON does not have: put it in quotes if it is a text")
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    whole = _whole(digits)
    return whole if whole is not None else _number(digits, text)


def _whole(digits: str) -> int | None:
    match = _WHOLE.fullmatch(digits)
    if match is None:
        return None
    sign, *read = match.groups()
    value = next(int(part, base) for part, base in zip(read, _BASES, strict=True) if part)
    value = -value if sign == "-" else value
    return value if _SMALLEST <= value <= _LARGEST else None


def _number(digits: str, text: str) -> float | str:
    """Too large a one is a text."""
    if not _FLOAT.fullmatch(digits):
        return text
    value = float(digits)
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and abs(value) < _WRITTEN_WHOLE else value


def _unpacked(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("it is no text in base64") from None
