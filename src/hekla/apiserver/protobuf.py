"""Reading protobuf bodies: kubectl and client-go send Kubernetes' own kinds that way.

Only reading: the answer is JSON, which every client accepts beside protobuf. The numbers of the fields are data
(`protobuf_fields.json`, written by `scripts/protobuf-fields`). As Go's JSON encoder would, zero values are left out
where the type says `omitempty`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hekla.api.kinds import Obj
from hekla.api.meta import micro_timestamp, timestamp

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_GROUPS = {
    "": "core", "v1": "core", "rbac.authorization.k8s.io": "rbac", "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage", "coordination.k8s.io": "coordination", "discovery.k8s.io": "discovery",
    "networking.k8s.io": "networking", "authorization.k8s.io": "authorization",
    "authentication.k8s.io": "authentication", "meta.k8s.io": "meta",
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Fields = dict[int, tuple[str, str, bool]]


def decode_protobuf(body: bytes) -> Obj:
    """The object in a protobuf body, in wire JSON shape. Raises ValueError."""
    if not body.startswith(_MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_read(body[len(_MAGIC) :]))
        type_meta = dict(_read(_bytes(envelope.get(1, b""))))
        api_version, kind = _bytes(type_meta.get(1, b"")).decode(), _bytes(type_meta.get(2, b"")).decode()
        message = _message_name(api_version, kind)
        obj = _decode(_bytes(envelope.get(2, b"")), message)
    except (IndexError, KeyError, UnicodeDecodeError, struct.error, OverflowError) as error:
        raise ValueError(f"not a protobuf message of a known kind: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **obj}


def _message_name(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return "meta.DeleteOptions"
    group = api_version.rpartition("/")[0]
    name = f"{_GROUPS.get(group, group)}.{kind}"
    if name not in _table():
        raise KeyError(f"{kind} in {api_version}")
    return name


@lru_cache(maxsize=1)
def _table() -> dict[str, Fields]:
    """Constant data, read when the first protobuf body comes."""
    text = (Path(__file__).parent / "protobuf_fields.json").read_bytes()
    return {
        message: {number: (name, type_, bool(kept)) for number, name, type_, kept in fields}
        for message, fields in msgspec.json.decode(text).items()
    }


def _decode(data: bytes, message: str) -> Obj:
    fields = _table()[message]
    result: Obj = {}
    for number, raw in _read(data):
        known = fields.get(number)
        if known is None:
            continue
        name, type_, kept = known
        if type_.startswith("[]"):
            result.setdefault(name, []).extend(_repeated(raw, type_[2:]))
        elif type_.startswith("{}"):
            key, value = _map_entry(_bytes(raw), type_[2:])
            result.setdefault(name, {})[key] = value
        else:
            value = _value(raw, type_)
            if not name:
                result.update(value)
            elif value is not None and (kept or value not in ("", 0, False, {}, [])):
                result[name] = value
    return result


def _repeated(raw: int | bytes, type_: str) -> list[Any]:
    if type_ == "int" and isinstance(raw, bytes):
        return [_signed(number) for number in _varints(raw)]
    return [_value(raw, type_)]


def _map_entry(data: bytes, type_: str) -> tuple[str, Any]:
    entry = dict(_read(data))
    missing: int | bytes = 0 if type_ in ("int", "bool") else b""
    return _bytes(entry.get(1, b"")).decode(), _value(entry.get(2, missing), type_)


def _value(raw: int | bytes, type_: str) -> Any:
    match type_:
        case "string":
            return _bytes(raw).decode()
        case "int":
            return _signed(_int(raw))
        case "bool":
            return bool(raw)
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "double":
            return struct.unpack("<d", _bytes(raw))[0]
    return _special(_bytes(raw), type_)


def _special(data: bytes, type_: str) -> Any:
    match type_:
        case "quantity":
            return _bytes(dict(_read(data)).get(1, b"")).decode()
        case "time" | "microtime":
            return _time(data, type_)
        case "intstr":
            parts = dict(_read(data))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(_int(parts.get(2, 0)))
        case "raw" | "fields":
            raw = _bytes(dict(_read(data)).get(1, b""))
            return msgspec.json.decode(raw) if raw else None
        case "duration":
            return f"{_signed(_int(dict(_read(data)).get(1, 0))) / 1e9:g}s"
    return _decode(data, type_)


def _time(data: bytes, type_: str) -> str | None:
    if not data:
        return None
    parts = dict(_read(data))
    seconds, nanos = _signed(_int(parts.get(1, 0))), _int(parts.get(2, 0))
    if seconds < 0:
        # Go's zero time lies before the epoch; it means "not set".
        return None
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return micro_timestamp(moment) if type_ == "microtime" else timestamp(moment)


def _read(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number, and a varint or bytes."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == 2:
            size, position = _varint(data, position)
        else:
            size = {1: 8, 5: 4}[wire]
        if position + size > end:
            raise IndexError("cut off")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise IndexError("varint too long")


def _varints(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _int(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise IndexError("bytes where a number should be")
    return raw


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise IndexError("a number where bytes should be")
    return raw
