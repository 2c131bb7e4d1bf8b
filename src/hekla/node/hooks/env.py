"""A container's environment and command line, built from nothing: the node's own environment never leaks in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hekla.api.kinds import Obj
from hekla.node.hooks.fields import field_value, resource_value
from hekla.node.hooks.sources import Sources

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]+)\))")


def build_env(
    pod: Obj,
    container: Obj,
    sources: Sources,
    *,
    base: Mapping[str, str],
    node: str,
    address: str,
    allocatable: dict[str, str],
) -> dict[str, str]:
    """`base` (image and defaults), then envFrom, then env, later ones winning. Raises MissingSource."""
    env = dict(base)
    for entry in container.get("envFrom") or ():
        env.update(_from_source(entry, sources))
    given: dict[str, str] = {}
    for entry in container.get("env") or ():
        value = _value(pod, container, entry, sources, {**env, **given}, node, address, allocatable)
        if value is not None:
            given[entry["name"]] = value
    return {**env, **given}


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where NAME is known; `$$` is a plain dollar; everything else stays as written."""
    return _REFERENCE.sub(lambda match: _replacement(match, env), text)


def unknown_in(text: str, env: Mapping[str, str]) -> list[str]:
    """The names that `expand` would leave as written."""
    return [match[1] for match in _REFERENCE.finditer(text) if match[1] is not None and match[1] not in env]


def _replacement(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match[1] is None:
        return "$"
    return env.get(match[1], match[0])


def _from_source(entry: Obj, sources: Sources) -> dict[str, str]:
    prefix = entry.get("prefix") or ""
    data: dict[str, bytes] = {}
    if entry.get("configMapRef"):
        reference = entry["configMapRef"]
        data = sources.data("configmap", reference["name"], optional=bool(reference.get("optional")))
    elif entry.get("secretRef"):
        reference = entry["secretRef"]
        data = sources.data("secret", reference["name"], optional=bool(reference.get("optional")))
    return {prefix + key: value.decode(errors="replace") for key, value in data.items()}


def _value(
    pod: Obj,
    container: Obj,
    entry: Obj,
    sources: Sources,
    known: Mapping[str, str],
    node: str,
    address: str,
    allocatable: dict[str, str],
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(str(entry.get("value") or ""), known)
    if source.get("fieldRef"):
        return field_value(pod, source["fieldRef"]["fieldPath"], node=node, address=address)
    if source.get("resourceFieldRef"):
        return resource_value(container, source["resourceFieldRef"], allocatable)
    for key, kind in (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")):
        if source.get(key):
            reference = source[key]
            optional = bool(reference.get("optional"))
            found = sources.key(kind, reference["name"], reference["key"], optional=optional)  # type: ignore[arg-type]
            return None if found is None else found.decode(errors="replace")
    return ""
