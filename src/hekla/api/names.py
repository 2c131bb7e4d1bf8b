"""What names may look like, with Kubernetes' own words for what is wrong with one. An empty list means: fine."""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_TEXT = (
    _QUALIFIED_TEXT.replace("name part", "a valid label key")
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_NO_PREFIX = "prefix part must be non-empty"


def label_problems(name: str) -> list[str]:
    """A DNS label: containers, volumes, hostnames."""
    text = "must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_TEXT
    return _problems(name, _LABEL, text, 63, "must be no more than 63 characters")


def subdomain_problems(name: str) -> list[str]:
    """A DNS subdomain: most objects."""
    return _problems(name, _SUBDOMAIN, _SUBDOMAIN_TEXT, 253, "must be no more than 253 characters")


def qualified_problems(name: str) -> list[str]:
    """A name as in labels, without a prefix."""
    return _problems(name, _QUALIFIED, _QUALIFIED_TEXT, 63, "name part must be no more than 63 bytes")


def label_key_problems(key: str) -> list[str]:
    """The key of a label: a name, which a DNS subdomain and a slash may precede."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [_KEY_TEXT]
    problems: list[str] = []
    if slash:
        problems += [f"prefix part {each}" for each in _prefix_problems(prefix)] if prefix else [_NO_PREFIX]
    if not name:
        problems.append("name part must be non-empty")
    return problems + qualified_problems(name)


def _prefix_problems(prefix: str) -> list[str]:
    return _problems(prefix, _SUBDOMAIN, _SUBDOMAIN_TEXT, 253, "must be no more than 253 bytes")


def label_value_problems(value: str) -> list[str]:
    return _problems(value, _VALUE, _VALUE_TEXT, 63, "must be no more than 63 bytes")


def path_segment_problems(name: str) -> list[str]:
    """A name of which only is asked that it can stand in a URL: roles, events."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in name]


def _problems(name: str, pattern: re.Pattern[str], text: str, most: int, too_long: str) -> list[str]:
    fits = pattern.fullmatch(name)
    if fits and len(name) <= most:
        return []
    problems = [too_long] if len(name.encode()) > most else []
    if not fits:
        problems.append(text)
    return problems
