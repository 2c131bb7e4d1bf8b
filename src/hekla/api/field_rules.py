"""Rules that fields of many kinds share: choices, ranges, ports, names, keys, addresses and relative paths."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any

from hekla.api.field import Problem, invalid, required, unsupported
from hekla.api.kinds import Obj
from hekla.api.names import label_key_problems, label_value_problems, subdomain_problems

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MOST_INT32 = 2147483647
_PREFIX_LENGTH = re.compile(r"/(0|[1-9][0-9]*)$")
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
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
    (r"([^-](.*[^-])?)?", "must not begin or end with a hyphen"),
)


def byte_count(text: str) -> int:
    """What limits of size are about."""
    return len(text) if text.isascii() else len(text.encode())


def choice_problems(obj: Obj, field: str, path: str, choices: Sequence[str]) -> list[Problem]:
    """What is absent, or empty, is filled in before anything runs."""
    return choice_or_absent_problems(obj, field, path, choices) if obj.get(field) else []


def choice_or_absent_problems(obj: Obj, field: str, path: str, choices: Sequence[str]) -> list[Problem]:
    """Of a field that may be absent, and not empty."""
    value = obj.get(field)
    return [] if value is None or value in choices else [unsupported(f"{path}.{field}", value, choices)]


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


def port_problems(number: int, path: str) -> list[Problem]:
    return [] if 0 < number < 65536 else [invalid(path, number, "must be between 1 and 65535, inclusive")]


def port_name_faults(name: str) -> list[str]:
    return [text for pattern, text in _PORT_NAME_RULES if not re.fullmatch(pattern, name)]


def target_port_problems(port: Any, path: str) -> list[Problem]:
    """A port of the pod, by its number or its name."""
    if isinstance(port, str):
        return [invalid(path, port, why) for why in port_name_faults(port)]
    return port_problems(port or 0, path)


def key_problems(key: str, path: str) -> list[Problem]:
    """The key of a ConfigMap or Secret."""
    return [invalid(path, key, why) for why in key_faults(key)] if key else [required(path)]


def key_faults(key: str) -> list[str]:
    faults = ["must be no more than 253 characters"] if len(key) > 253 else []
    if not _KEY.fullmatch(key):
        faults.append(_KEY_TEXT)
    if key in (".", ".."):
        faults.append(f"must not be '{key}'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return faults


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
        zeros = _is_address(_LEADING_ZEROS.sub("", value))
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return [invalid(path, value, "must not have leading 0s" if zeros else text)]
    return []


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def network_problems(value: str, path: str) -> list[Problem]:
    found = network(value)
    if found is None:
        zeros = network(_LEADING_ZEROS.sub("", value)) is not None
        text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [invalid(path, value, "must not have leading 0s in IP or prefix length" if zeros else text)]
    if isinstance(found, ipaddress.IPv6Network) and found.network_address.ipv4_mapped:
        return [invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    if str(found.network_address) != str(ipaddress.ip_address(value.partition("/")[0])):
        return [invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def network(value: str) -> Network | None:
    """The addresses of a prefix; None for what is none."""
    if not _PREFIX_LENGTH.search(value):
        return None
    try:
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None
