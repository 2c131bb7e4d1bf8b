"""Reading a URL path: which resource, where, which object, which subresource."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class Route(NamedTuple):
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_route(path: str) -> Route | None:
    """None when the path is not of a resource. Segments are decoded after splitting, so `%2F` never makes a path."""
    parts = path.split("/")
    if len(parts) >= 4 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) >= 5 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    if "%" in path:
        rest = [unquote(part) for part in rest]
        if any("/" in part for part in rest):
            return None
    if rest[-1] == "":
        rest.pop()
    if not rest or "" in rest:
        return None
    return _route(group, version, rest)


def _route(group: str, version: str, rest: list[str]) -> Route | None:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Route(group, version, plural, namespace, name, subresource)
