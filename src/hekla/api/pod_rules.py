"""What makes a pod wrong, beyond its schema: the rules people trip over, in Kubernetes' own words and all at once.

The API server asks for pods, admission for the templates of Jobs.
"""

from __future__ import annotations

import re
from typing import Any

from hekla.api.field import Problem, duplicate, forbidden, invalid, not_found, required, unsupported
from hekla.api.kinds import Obj
from hekla.api.names import label_key_problems, label_problems, label_value_problems
from hekla.api.quantity import InvalidQuantity, canonical, parse

_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "protocol": ("SCTP", "TCP", "UDP"),
}
_ENV_NAME = re.compile(r"[ -<>-~]+")
_ENV_NAME_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_PORT_NAME_RULES: tuple[tuple[str, str], ...] = (
    (r".{0,15}", "must be no more than 15 bytes"),
    (r"[-a-z0-9]+", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    (r".*[a-z].*", "must contain at least one letter (a-z)"),
    (r"(?!.*--).*", "must not contain consecutive hyphens"),
    (r"[^-](.*[^-])?", "must not begin or end with a hyphen"),
)
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
# What of a volume must say where its content is, and how.
_SOURCE_NAMES: dict[str, str] = {
    "configMap": "name",
    "hostPath": "path",
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}


def template_problems(template: Obj, path: str = "template") -> list[Problem]:
    labels = (template.get("metadata") or {}).get("labels") or {}
    problems: list[Problem] = []
    for key, value in labels.items():
        problems += [invalid(f"{path}.labels", key, why) for why in label_key_problems(key)]
        problems += [invalid(f"{path}.labels", value, why) for why in label_value_problems(value)]
    return problems + pod_spec_problems(template.get("spec") or {}, f"{path}.spec")


def pod_spec_problems(spec: Obj, path: str) -> list[Problem]:
    problems, volumes = _volume_problems(spec, f"{path}.volumes")
    if not spec.get("containers"):
        problems.append(required(f"{path}.containers"))
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            problems += _container_problems(container, f"{path}.{field}[{index}]", names, volumes)
    problems += _choice_problems(spec, "restartPolicy", path)
    problems += _choice_problems(spec, "dnsPolicy", path)
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            problems += [invalid(f"{path}.{field}", spec[field], why) for why in label_problems(spec[field])]
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and deadline < 1:
        problems.append(
            invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
        )
    return problems


def _volume_problems(spec: Obj, path: str) -> tuple[list[Problem], set[str]]:
    problems: list[Problem] = []
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        problems += _own_name_problems(volume, f"{path}[{index}].name", names)
        problems += _source_problems(volume, f"{path}[{index}]")
    return problems, names


def _source_problems(volume: Obj, path: str) -> list[Problem]:
    sources = [field for field, value in volume.items() if field != "name" and value is not None]
    problems = [forbidden(f"{path}.{one}", "may not specify more than 1 volume type") for one in sorted(sources)[1:]]
    for source in sources:
        name = _SOURCE_NAMES.get(source)
        if name is not None and not volume[source].get(name):
            problems.append(required(f"{path}.{source}.{name}"))
    return problems


def _container_problems(container: Obj, path: str, names: set[str], volumes: set[str]) -> list[Problem]:
    problems = _own_name_problems(container, f"{path}.name", names)
    if not container.get("image"):
        problems.append(required(f"{path}.image"))
    problems += _choice_problems(container, "imagePullPolicy", path)
    problems += _port_problems(container, f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        problems += _env_problems(variable, f"{path}.env[{index}]")
    problems += _mount_problems(container, f"{path}.volumeMounts", volumes)
    return problems + _resource_problems(container.get("resources") or {}, f"{path}.resources")


def _own_name_problems(item: Obj, path: str, names: set[str]) -> list[Problem]:
    """A DNS label that no other of `names` has; it joins them."""
    name = str(item.get("name") or "")
    if not name:
        return [required(path)]
    problems = [invalid(path, name, why) for why in label_problems(name)]
    if name in names:
        problems.append(duplicate(path, f'"{name}"'))
    names.add(name)
    return problems


def _mount_problems(container: Obj, path: str, volumes: set[str]) -> list[Problem]:
    problems: list[Problem] = []
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, target = f"{path}[{index}]", str(mount.get("name") or ""), str(mount.get("mountPath") or "")
        if not name:
            problems.append(required(f"{where}.name"))
        elif name not in volumes:
            problems.append(not_found(f"{where}.name", name))
        if not target:
            problems.append(required(f"{where}.mountPath"))
        elif target in paths:
            problems.append(invalid(f"{where}.mountPath", target, "must be unique"))
        paths.add(target)
        if ".." in str(mount.get("subPath") or "").split("/"):
            problems.append(invalid(f"{where}.subPath", mount["subPath"], "must not contain '..'"))
    return problems


def _port_problems(container: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        where, number, name = f"{path}[{index}]", port.get("containerPort"), str(port.get("name") or "")
        wrong = [text for pattern, text in _PORT_NAME_RULES if name and not re.fullmatch(pattern, name)]
        problems += [invalid(f"{where}.name", name, text) for text in wrong]
        if name and not wrong and name in names:
            problems.append(duplicate(f"{where}.name", f'"{name}"'))
        names.add(name)
        if not number:
            problems.append(required(f"{where}.containerPort"))
        elif not 0 < number < 65536:
            problems.append(invalid(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive"))
        problems += _choice_problems(port, "protocol", where)
    return problems


def _env_problems(variable: Obj, path: str) -> list[Problem]:
    name = str(variable.get("name") or "")
    if not name:
        return [required(f"{path}.name")]
    if not _ENV_NAME.fullmatch(name):
        return [invalid(f"{path}.name", name, _ENV_NAME_TEXT)]
    if variable.get("value") and variable.get("valueFrom"):
        return [invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")]
    return []


def _resource_problems(resources: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    limits = resources.get("limits") or {}
    for which in ("limits", "requests"):
        for name, amount in (resources.get(which) or {}).items():
            problems += _resource_name_problems(name, f"{path}.{which}[{name}]")
            problems += _amount_problems(amount, f"{path}.{which}[{name}]")
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and not _may_overcommit(name) and _differ(amount, limits[name]):
            why = f"must be equal to {name} limit of {canonical(limits[name])}"
            problems.append(invalid(f"{path}.requests", canonical(amount), why))
        elif name in limits and _exceeds(amount, limits[name]):
            why = f"must be less than or equal to {name} limit of {canonical(limits[name])}"
            problems.append(invalid(f"{path}.requests", canonical(amount), why))
        elif name not in limits and not _may_overcommit(name):
            problems.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    return problems


def _resource_name_problems(name: str, path: str) -> list[Problem]:
    if "/" in name or name in _STANDARD_RESOURCES or name.startswith(_HUGE_PAGES):
        return []
    return [
        invalid(path, name, "must be a standard resource type or fully qualified"),
        invalid(path, name, "must be a standard resource for containers"),
    ]


def _may_overcommit(name: str) -> bool:
    """Whether pods may be promised less of it than they may use."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(_HUGE_PAGES)


def _amount_problems(amount: Any, path: str) -> list[Problem]:
    try:
        return [invalid(path, str(amount), "must be greater than or equal to 0")] if parse(amount) < 0 else []
    except InvalidQuantity as error:
        return [invalid(path, str(amount), str(error))]


def _exceeds(request: Any, limit: Any) -> bool:
    try:
        return parse(request) > parse(limit) >= 0
    except InvalidQuantity:
        return False


def _differ(request: Any, limit: Any) -> bool:
    try:
        return parse(request) != parse(limit)
    except InvalidQuantity:
        return False


def _choice_problems(obj: Obj, field: str, path: str) -> list[Problem]:
    """What is absent is filled in before anything runs."""
    value = obj.get(field)
    if not value or value in _CHOICES[field]:
        return []
    return [unsupported(f"{path}.{field}", value, _CHOICES[field])]
