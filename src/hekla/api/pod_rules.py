"""What makes a pod template wrong, beyond its schema: the rules people trip over, in Kubernetes' own words.

Each problem is `<field path>: <what is wrong>`, all of them at once.
"""

from __future__ import annotations

import re
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.names import label_problems
from hekla.api.quantity import InvalidQuantity, canonical, parse

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*|[!-<>-~]+")


def template_problems(template: Obj, path: str = "template") -> list[str]:
    spec = template.get("spec") or {}
    return pod_spec_problems(spec, f"{path}.spec")


def pod_spec_problems(spec: Obj, path: str) -> list[str]:
    problems, volumes = _volume_problems(spec, f"{path}.volumes")
    containers = spec.get("containers") or []
    if not containers:
        problems.append(f"{path}.containers: Required value")
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            problems += _container_problems(container, f"{path}.{field}[{index}]", names, volumes)
    problems += _choice(spec, "restartPolicy", _RESTART_POLICIES, path)
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            problems += [
                f'{path}.{field}: Invalid value: "{spec[field]}": {why}' for why in label_problems(spec[field])
            ]
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and deadline < 1:
        problems.append(
            f"{path}.activeDeadlineSeconds: Invalid value: {deadline}: must be between 1 and 2147483647, inclusive"
        )
    return problems


def _volume_problems(spec: Obj, path: str) -> tuple[list[str], set[str]]:
    problems: list[str] = []
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = str(volume.get("name") or "")
        where = f"{path}[{index}].name"
        if not name:
            problems.append(f"{where}: Required value")
        problems += [f'{where}: Invalid value: "{name}": {why}' for why in label_problems(name) if name]
        if name in names:
            problems.append(f'{where}: Duplicate value: "{name}"')
        names.add(name)
    return problems, names


def _container_problems(container: Obj, path: str, names: set[str], volumes: set[str]) -> list[str]:
    name = str(container.get("name") or "")
    problems: list[str] = []
    if not name:
        problems.append(f"{path}.name: Required value")
    else:
        problems += [f'{path}.name: Invalid value: "{name}": {why}' for why in label_problems(name)]
    if name and name in names:
        problems.append(f'{path}.name: Duplicate value: "{name}"')
    names.add(name)
    if not container.get("image"):
        problems.append(f"{path}.image: Required value")
    problems += _choice(container, "imagePullPolicy", _PULL_POLICIES, path)
    problems += _mount_problems(container, f"{path}.volumeMounts", volumes)
    problems += _port_problems(container, f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        problems += _env_problems(variable, f"{path}.env[{index}]")
    return problems + _resource_problems(container.get("resources") or {}, f"{path}.resources")


def _mount_problems(container: Obj, path: str, volumes: set[str]) -> list[str]:
    problems: list[str] = []
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, target = f"{path}[{index}]", str(mount.get("name") or ""), str(mount.get("mountPath") or "")
        if not name:
            problems.append(f"{where}.name: Required value")
        elif name not in volumes:
            problems.append(f'{where}.name: Not found: "{name}"')
        if not target:
            problems.append(f"{where}.mountPath: Required value")
        elif target in paths:
            problems.append(f'{where}.mountPath: Invalid value: "{target}": must be unique')
        paths.add(target)
    return problems


def _port_problems(container: Obj, path: str) -> list[str]:
    problems: list[str] = []
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        number, name = port.get("containerPort"), port.get("name")
        if not number:
            problems.append(f"{path}[{index}].containerPort: Required value")
        elif not 0 < number < 65536:
            problems.append(
                f"{path}[{index}].containerPort: Invalid value: {number}: must be between 1 and 65535, inclusive"
            )
        if name and name in names:
            problems.append(f'{path}[{index}].name: Duplicate value: "{name}"')
        names.add(name or "")
    return problems


def _env_problems(variable: Obj, path: str) -> list[str]:
    name = str(variable.get("name") or "")
    if not name:
        return [f"{path}.name: Required value"]
    if not _ENV_NAME.fullmatch(name):
        return [
            f'{path}.name: Invalid value: "{name}": a valid environment variable name must consist only of printable '
            "ASCII characters other than '='"
        ]
    if variable.get("value") and variable.get("valueFrom"):
        return [f'{path}.valueFrom: Invalid value: "": may not be specified when `value` is not empty']
    return []


def _resource_problems(resources: Obj, path: str) -> list[str]:
    problems: list[str] = []
    limits = resources.get("limits") or {}
    for which in ("limits", "requests"):
        for name, amount in (resources.get(which) or {}).items():
            problems += _amount_problems(amount, f"{path}.{which}[{name}]")
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and _exceeds(amount, limits[name]):
            problems.append(
                f'{path}.requests: Invalid value: "{canonical(amount)}": must be less than or equal to {name} '
                f"limit of {canonical(limits[name])}"
            )
    return problems


def _amount_problems(amount: Any, path: str) -> list[str]:
    try:
        if parse(amount) < 0:
            return [f'{path}: Invalid value: "{amount}": must be greater than or equal to 0']
    except InvalidQuantity as error:
        return [f'{path}: Invalid value: "{amount}": {error}']
    return []


def _exceeds(request: Any, limit: Any) -> bool:
    try:
        return parse(request) > parse(limit) >= 0
    except InvalidQuantity:
        return False


def _choice(obj: Obj, field: str, allowed: tuple[str, ...], path: str) -> list[str]:
    value = obj.get(field)
    if not value or value in allowed:
        return []
    choices = ", ".join(f'"{choice}"' for choice in allowed)
    return [f'{path}.{field}: Unsupported value: "{value}": supported values: {choices}']
