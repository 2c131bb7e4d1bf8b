"""Rules that several parts of a pod share: choices, ranges, ports, names, keys and relative paths."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any

from hekla.api.field import Problem, invalid, required, unsupported
from hekla.api.kinds import Obj
from hekla.api.names import label_key_problems, label_value_problems, subdomain_problems

MOST_INT32 = 2147483647
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PORT_NAME_RULES: tuple[tuple[str, str], ...] = (
    (r".{0,15}", "must be no more than 15 characters"),
    (r"[-a-z0-9]+", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    (r".*[a-z].*", "must contain at least one letter (a-z)"),
    (r"(?!.*--).*", "must not contain consecutive hyphens"),
    (r"[^-](.*[^-])?", "must not begin or end with a hyphen"),
)


def choice_problems(obj: Obj, field: str, path: str, choices: Sequence[str]) -> list[Problem]:
    """What is absent is filled in before anything runs."""
    value = obj.get(field)
    if not value or value in choices:
        return []
    return [unsupported(f"{path}.{field}", value, choices)]


def range_problems(obj: Obj, field: str, path: str, least: int, most: int = MOST_INT32) -> list[Problem]:
    """About a number that may be absent."""
    value = obj.get(field)
    if not isinstance(value, int) or least <= value <= most:
        return []
    return [invalid(f"{path}.{field}", value, f"must be between {least} and {most}, inclusive")]


def no_less_than_zero(obj: Obj, field: str, path: str) -> list[Problem]:
    value = obj.get(field)
    if not isinstance(value, int) or value >= 0:
        return []
    return [invalid(f"{path}.{field}", value, "must be greater than or equal to 0")]


def port_name_faults(name: str) -> list[str]:
    return [text for pattern, text in _PORT_NAME_RULES if not re.fullmatch(pattern, name)]


def target_port_problems(port: Any, path: str) -> list[Problem]:
    """A port of the pod, by its number or its name."""
    if isinstance(port, str):
        return [invalid(path, port, why) for why in port_name_faults(port)]
    number = port or 0
    return [] if 0 < number < 65536 else [invalid(path, number, "must be between 1 and 65535, inclusive")]


def key_problems(key: str, path: str) -> list[Problem]:
    """The key of a ConfigMap or Secret."""
    if not key:
        return [required(path)]
    return [] if _KEY.fullmatch(key) else [invalid(path, key, _KEY_TEXT)]


def subdomain_field_problems(value: str, path: str) -> list[Problem]:
    return [invalid(path, value, why) for why in subdomain_problems(value)]


def qualified_field_problems(value: str, path: str) -> list[Problem]:
    """A name with an optional prefix: keys of labels, taints, gates and conditions."""
    return [invalid(path, value, why) for why in label_key_problems(value)]


def label_map_problems(labels: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for key, value in labels.items():
        problems += qualified_field_problems(key, path)
        problems += [invalid(path, value, why) for why in label_value_problems(value)]
    return problems


def step_back_problems(value: str, path: str) -> list[Problem]:
    """A path may not lead out of what it is relative to."""
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def relative_path_problems(value: str, path: str) -> list[Problem]:
    if value.startswith("/"):
        return [invalid(path, value, "must be a relative path")]
    return step_back_problems(value, path)


def address_problems(value: str, path: str) -> list[Problem]:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return [invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []
