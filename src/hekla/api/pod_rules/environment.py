"""The variables of a container: written down, or taken from somewhere."""

from __future__ import annotations

import re

from hekla.api.field import Problem, invalid, required, unsupported
from hekla.api.field_rules import key_problems, subdomain_field_problems
from hekla.api.kinds import Obj
from hekla.api.quantity import InvalidQuantity, parse

_NAME = re.compile(r"[ -<>-~]+")
_NAME_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_SEVERAL = "may not have more than one field specified at a time"
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_KNOWN_FIELDS = (*_FIELDS, "metadata.labels", "metadata.annotations")
_BY_KEY = re.compile(r"metadata\.(labels|annotations)\['[^']*'\]")
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_DIVISORS = {
    "cpu": ("1m", "1"),
    "memory": ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
}


def env_problems(variable: Obj, path: str) -> list[Problem]:
    name = str(variable.get("name") or "")
    problems: list[Problem] = []
    if not name:
        problems.append(required(f"{path}.name"))
    elif not _NAME.fullmatch(name):
        problems.append(invalid(f"{path}.name", name, _NAME_TEXT))
    source = variable.get("valueFrom")
    if source is not None:
        problems += _source_problems(variable, source, f"{path}.valueFrom")
    return problems


def env_from_problems(source: Obj, path: str, number: int) -> list[Problem]:
    """Of a list at `path` the item `number`; how many sources it has is told of the list."""
    prefix, where = str(source.get("prefix") or ""), f"{path}[{number}]"
    problems = [invalid(f"{where}.prefix", prefix, _NAME_TEXT)] if prefix and not _NAME.fullmatch(prefix) else []
    given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
    for field in given:
        name, place = str(source[field].get("name") or ""), f"{where}.{field}.name"
        problems += subdomain_field_problems(name, place) if name else [required(place)]
    if not given:
        problems.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(given) > 1:
        problems.append(invalid(path, "", _SEVERAL))
    return problems


def field_problems(reference: Obj, path: str, supported: tuple[str, ...]) -> list[Problem]:
    """About a field of the pod itself."""
    field = str(reference.get("fieldPath") or "")
    where = f"{path}.fieldPath"
    if not field:
        return [required(where)]
    if _BY_KEY.fullmatch(field):
        return []
    if field not in _KNOWN_FIELDS:
        return [invalid(where, field, f"error converting fieldPath: field label not supported: {field}")]
    return [] if field in supported else [unsupported(where, field, supported)]


def amount_field_problems(reference: Obj, path: str, *, in_volume: bool = False) -> list[Problem]:
    """About an amount a container asks for or is limited to; a volume has to say which."""
    if in_volume and not reference.get("containerName"):
        return [required(f"{path}.containerName")]
    resource, divisor = str(reference.get("resource") or ""), reference.get("divisor")
    if not resource:
        return [required(f"{path}.resource")]
    if "hugepages-" in resource:
        return []
    if resource not in _RESOURCES:
        return [unsupported(f"{path}.resource", resource, _RESOURCES)]
    kind = "cpu" if resource.endswith("cpu") else "memory"
    try:
        fits = not divisor or parse(divisor) == 0 or parse(divisor) in map(parse, _DIVISORS[kind])
    except InvalidQuantity:
        fits = False
    if fits:
        return []
    allowed = "1m and 1" if kind == "cpu" else ", ".join(_DIVISORS[kind])
    _, _, name = resource.partition(".")
    of = "local ephemeral storage" if name == "ephemeral-storage" else name
    why = f"only divisor's values {allowed} are supported with the {of} resource"
    return [invalid(f"{path}.divisor", resource, why)]


def _source_problems(variable: Obj, source: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    given = [field for field in _SOURCES if source.get(field) is not None]
    for field in given:
        where, reference = f"{path}.{field}", source[field]
        if field == "fieldRef":
            problems += field_problems(reference, where, _FIELDS)
        elif field == "resourceFieldRef":
            problems += amount_field_problems(reference, where)
        elif field != "fileKeyRef":
            problems += subdomain_field_problems(str(reference.get("name") or ""), f"{where}.name")
            problems += key_problems(str(reference.get("key") or ""), f"{where}.key")
    if not given:
        *others, last = _SOURCES
        listed = f"{', '.join(f'`{one}`' for one in others)} or `{last}`"
        return [invalid(path, "", f"must specify one of: {listed}")]
    if variable.get("value"):
        problems.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        problems.append(invalid(path, "", _SEVERAL))
    return problems
