"""The containers of a pod: their names, ports and everything that hangs on them."""

from __future__ import annotations

from hekla.api.field import Problem, duplicate, forbidden, invalid, not_found, required
from hekla.api.field_rules import choice_or_absent_problems, choice_problems, port_name_faults, range_problems
from hekla.api.kinds import Obj
from hekla.api.pod_rules.environment import env_from_problems, env_problems
from hekla.api.pod_rules.handlers import lifecycle_problems, probe_problems
from hekla.api.pod_rules.resources import resource_problems
from hekla.api.pod_rules.security import security_problems
from hekla.api.pod_rules.volumes import mount_problems, own_name_problems

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS = ("Always", "Never", "OnFailure")
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"


def containers_problems(spec: Obj, path: str, volumes: set[str]) -> list[Problem]:
    """Of all containers of a pod, those that run before the others included."""
    problems = [] if spec.get("containers") else [required(f"{path}.containers")]
    names: set[str] = set()
    grace = spec.get("terminationGracePeriodSeconds")
    for index, container in enumerate(spec.get("containers") or ()):
        where = f"{path}.containers[{index}]"
        problems += _common_problems(container, where, names, volumes, host=bool(spec.get("hostNetwork")))
        problems += lifecycle_problems(container, where, grace) + probe_problems(container, where)
        problems += choice_or_absent_problems(container, "restartPolicy", where, _RESTARTS)
    problems += _host_port_conflicts(spec.get("containers") or [], f"{path}.containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{index}]"
        problems += _common_problems(container, where, names, volumes, host=bool(spec.get("hostNetwork")))
        problems += _init_problems(container, where, grace)
    return problems


def _init_problems(container: Obj, path: str, grace: int | None) -> list[Problem]:
    if container.get("restartPolicy") == "Always":
        return lifecycle_problems(container, path, grace) + probe_problems(container, path)
    running = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
    problems = [forbidden(f"{path}.{one}", _ONLY_SIDECARS) for one in running if container.get(one) is not None]
    return problems + choice_or_absent_problems(container, "restartPolicy", path, _RESTARTS)


def _common_problems(container: Obj, path: str, names: set[str], volumes: set[str], *, host: bool) -> list[Problem]:
    problems = own_name_problems(container, f"{path}.name", names)
    if not container.get("image"):
        problems.append(required(f"{path}.image"))
    problems += choice_problems(container, "terminationMessagePolicy", path, _MESSAGE_POLICIES)
    problems += _port_problems(container, f"{path}.ports", host=host)
    for index, variable in enumerate(container.get("env") or ()):
        problems += env_problems(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom") or ()):
        problems += env_from_problems(source, f"{path}.envFrom", index)
    problems += mount_problems(container, f"{path}.volumeMounts", volumes)
    for index, device in enumerate(container.get("volumeDevices") or ()):
        name = str(device.get("name") or "")
        if name not in volumes:
            problems.append(not_found(f"{path}.volumeDevices[{index}].name", name))
    problems += choice_problems(container, "imagePullPolicy", path, _PULL_POLICIES)
    problems += resource_problems(container.get("resources") or {}, f"{path}.resources")
    return problems + security_problems(container, path)


def _port_problems(container: Obj, path: str, *, host: bool) -> list[Problem]:
    problems: list[Problem] = []
    names: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        where, number, name = f"{path}[{index}]", port.get("containerPort"), str(port.get("name") or "")
        wrong = port_name_faults(name) if name else []
        problems += [invalid(f"{where}.name", name, text) for text in wrong]
        if name and not wrong and name in names:
            problems.append(duplicate(f"{where}.name", f'"{name}"'))
        names.add(name)
        if not number:
            problems.append(required(f"{where}.containerPort"))
        else:
            problems += range_problems(port, "containerPort", where, 1, 65535)
        if port.get("hostPort"):
            problems += range_problems(port, "hostPort", where, 1, 65535)
            if host and port["hostPort"] != number:
                why = "must match `containerPort` when `hostNetwork` is true"
                problems.append(invalid(f"{where}.hostPort", port["hostPort"], why))
        problems += choice_problems(port, "protocol", where, _PROTOCOLS)
    return problems


def _host_port_conflicts(containers: list[Obj], path: str) -> list[Problem]:
    problems: list[Problem] = []
    taken: set[str] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            place = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if place in taken:
                problems.append(duplicate(f"{path}[{number}].ports[{index}].hostPort", f'"{place}"'))
            taken.add(place)
    return problems
