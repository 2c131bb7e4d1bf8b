"""Bodies to objects: JSON first, YAML with a guard, duplicate keys noticed when somebody wants to know."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hekla.api.kinds import Obj
from hekla.apiserver.protobuf import PROTOBUF, decode_protobuf
from hekla.apiserver.request import JSON, Request
from hekla.errors import BadRequest, UnsupportedMediaType

YAML = "application/yaml"
_YAML_EVENTS = 200_000
_YAML_DEPTH = 200
_decode = msgspec.json.Decoder().decode


def decode_object(request: Request, kind: str) -> Obj:
    """The object of a create or update."""
    if request.content_type not in (JSON, YAML, PROTOBUF, ""):
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        )
    try:
        document = decode_body(request)
    except ValueError as error:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"json parse error: {error}"
        ) from None
    if not isinstance(document, dict):
        raise BadRequest(f"the object provided is unrecognized (must be of type {kind}): it is not an object")
    return document


def decode_body(request: Request) -> Any:
    """A body in whatever format it says it has. Raises ValueError."""
    if request.content_type == PROTOBUF:
        return decode_protobuf(request.body)
    return decode_document(request.body)


def decode_document(body: bytes) -> Any:
    """JSON, or YAML where it is not JSON. Raises ValueError."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if body.lstrip()[:1] in (b"{", b"["):
            raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    return _decode_yaml(body)


def _decode_yaml(body: bytes) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = body.decode()
        depth = 0
        # The C loader recurses on the C stack and aliases multiply: look at the flat events before building anything.
        for count, event in enumerate(yaml.parse(text, Loader=loader)):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("aliases are not accepted")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _YAML_DEPTH or count > _YAML_EVENTS:
                raise ValueError("exceeded max depth or size")
        document = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader either way
        # YAML knows more than JSON does: dates, keys that are numbers. As JSON they are texts.
        return _decode(msgspec.json.encode(document))
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise ValueError(str(error)) from None
    except (LookupError, AttributeError):
        # How the loader fails on a value that is not of the type its tag says.
        raise ValueError("a value is not what its tag says") from None


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of the keys that occur twice in one object of a JSON body."""
    found: list[str] = []
    try:
        _collect(json.loads(body, object_pairs_hook=_Pairs), "", found)
    except (ValueError, RecursionError):
        return []
    return found


class _Pairs(list[tuple[str, Any]]):
    pass


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, below in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                found.append(here)
            seen.add(name)
            _collect(below, here, found)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            _collect(below, f"{path}[{index}]", found)
