"""The OpenAPI v2 document in protobuf: older kubectls read no other form, and `explain` of newer ones can ask for it.

Each message is a table from the words of the JSON document to the numbers and types of its fields. What JSON has as a
map is a list of name and value here; extensions (`x-…`) are texts in YAML; words that v2 does not know are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from hekla.api.kinds import Obj

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED_FOR_AS = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")  # `@` may be in no answer

# The wire types.
_VARINT, _DOUBLE, _BYTES = 0, 1, 2

_Encode = Callable[[int, Any], bytes]  # a field of this number with this value


def encode_document(document: Obj) -> bytes:
    """An OpenAPI v2 document, as MEDIA_TYPE."""
    return _DOCUMENT.message(document)


class _Message:
    """A message whose fields are those of a JSON object, and perhaps its extensions."""

    def __init__(self, fields: Mapping[str, tuple[int, _Encode]], *, extensions: int = 0) -> None:
        self._fields = dict(fields)
        self._extensions = extensions

    def add(self, word: str, number: int, encode: _Encode) -> None:
        """One more field: for messages that hold themselves."""
        self._fields[word] = (number, encode)

    def __call__(self, number: int, value: Obj) -> bytes:
        return _delimited(number, self.message(value))

    def message(self, value: Obj) -> bytes:
        return b"".join(self._encoded(value))

    def _encoded(self, value: Obj) -> Iterator[bytes]:
        for word, part in value.items():
            if part is None:
                # In definitions, as people write them, a null says nothing.
                continue
            known = self._fields.get(word)
            if known is not None:
                number, encode = known
                yield encode(number, part)
            elif self._extensions and word.startswith("x-"):
                yield _delimited(self._extensions, _text(1, word) + _any(2, part))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _delimited(number, value.encode())


def _integer(number: int, value: float) -> bytes:
    # Negative numbers are written as the 64 bits they have; what JSON has as 10.0 is 10.
    return _varint(number << 3 | _VARINT) + _varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    """Whatever it is, as YAML text, of which JSON is a part."""
    return _delimited(number, _delimited(2, msgspec.json.encode(value)))


def _each(encode: _Encode) -> _Encode:
    return lambda number, values: b"".join(encode(number, value) for value in values)


def _within(*numbers: int, encode: _Encode) -> _Encode:
    """A value that lies in messages of one field each, with these numbers from the outermost to the innermost."""

    def encode_within(number: int, value: Any) -> bytes:
        *outer, innermost = (number, *numbers)
        encoded = encode(innermost, value)
        for each in reversed(outer):
            encoded = _delimited(each, encoded)
        return encoded

    return encode_within


def _named(entries: int, encode: _Encode) -> _Encode:
    """A map, as a message whose field `entries` has a name and a value each."""

    def encode_named(number: int, value: Mapping[str, Any]) -> bytes:
        named = (_delimited(entries, _text(1, name) + encode(2, below)) for name, below in value.items())
        return _delimited(number, b"".join(named))

    return encode_named


def _types(number: int, value: str | list[str]) -> bytes:
    return _delimited(number, _each(_text)(1, [value] if isinstance(value, str) else value))


def _additional(number: int, value: Obj | bool) -> bytes:
    return _delimited(number, _integer(2, value) if isinstance(value, bool) else _SCHEMA(1, value))


_SCHEMA = _Message(
    {
        "$ref": (1, _text),
        "format": (2, _text),
        "title": (3, _text),
        "description": (4, _text),
        "default": (5, _any),
        "multipleOf": (6, _double),
        "maximum": (7, _double),
        "exclusiveMaximum": (8, _integer),
        "minimum": (9, _double),
        "exclusiveMinimum": (10, _integer),
        "maxLength": (11, _integer),
        "minLength": (12, _integer),
        "pattern": (13, _text),
        "maxItems": (14, _integer),
        "minItems": (15, _integer),
        "uniqueItems": (16, _integer),
        "maxProperties": (17, _integer),
        "minProperties": (18, _integer),
        "required": (19, _each(_text)),
        "enum": (20, _each(_any)),
        "additionalProperties": (21, _additional),
        "type": (22, _types),
    },
    extensions=31,
)
_SCHEMA.add("items", 23, _within(1, encode=_SCHEMA))
_SCHEMA.add("allOf", 24, _each(_SCHEMA))
_SCHEMA.add("properties", 25, _named(1, _SCHEMA))
_PARAMETER = _Message({"in": (2, _text), "name": (4, _text), "type": (6, _text), "uniqueItems": (20, _integer)})
_OPERATION = _Message(
    {
        # Of all that may be said of a parameter ours are query parameters: 2 is "not in the body", 3 is "in the query".
        "parameters": (8, _each(_within(1, 2, 3, encode=_PARAMETER))),
        "responses": (9, _named(1, _within(1, encode=_Message({"description": (1, _text)})))),
    },
    extensions=13,
)
_PATH = _Message({method: (number, _OPERATION) for method, number in (("get", 2), ("put", 3), ("post", 4))})
_PATH.add("delete", 5, _OPERATION)
_PATH.add("patch", 8, _OPERATION)
_DOCUMENT = _Message(
    {
        "swagger": (1, _text),
        "info": (2, _Message({"title": (1, _text), "version": (2, _text)})),
        "paths": (8, _named(2, _PATH)),
        "definitions": (9, _named(1, _SCHEMA)),
    }
)
