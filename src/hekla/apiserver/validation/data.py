"""ConfigMaps and Secrets: what their keys may look like, how much they hold, and what may not change."""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.core import ACCOUNT_NAME_ANNOTATION, ACCOUNT_TOKEN_SECRET
from hekla.api.field import Problem, forbidden, invalid, required, too_long
from hekla.api.field_rules import byte_count, key_faults
from hekla.api.kinds import Obj

_MOST_BYTES = 1024 * 1024


def validate_config_map(config_map: Obj) -> list[Problem]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    problems = _key_problems(data, "data") + _key_problems(binary, "binaryData")
    problems += [
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary
    ]
    if sum(map(byte_count, data.values())) + _decoded_bytes(binary) > _MOST_BYTES:
        problems.append(too_long("", _MOST_BYTES))
    return problems


def validate_secret(secret: Obj) -> list[Problem]:
    data = secret.get("data") or {}
    problems = _key_problems(data, "data")
    if _decoded_bytes(data) > _MOST_BYTES:
        problems.append(too_long("data", _MOST_BYTES))
    annotations = secret["metadata"].get("annotations") or {}
    if secret.get("type") == ACCOUNT_TOKEN_SECRET and not annotations.get(ACCOUNT_NAME_ANNOTATION):
        problems.append(required(f"metadata.annotations[{ACCOUNT_NAME_ANNOTATION}]"))
    return problems


def validate_immutable_data(new: Obj, old: Obj) -> list[Problem]:
    if not old.get("immutable"):
        return []
    return [
        forbidden(field, "field is immutable when `immutable` is set")
        for field in ("immutable", "data", "binaryData")
        if new.get(field) != old.get(field)
    ]


def validate_secret_update(new: Obj, old: Obj) -> list[Problem]:
    problems = validate_immutable_data(new, old)
    if new.get("type") != old.get("type"):
        problems.append(invalid("type", new.get("type"), "field is immutable"))
    return problems


def _key_problems(keys: Iterable[str], path: str) -> list[Problem]:
    return [invalid(f"{path}[{key}]", key, why) for key in keys for why in key_faults(key)]


def _decoded_bytes(encoded: dict[str, str]) -> int:
    """Of texts in base64."""
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in encoded.values())
