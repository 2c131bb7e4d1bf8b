"""Probes, and what is run when a container starts and stops."""

from __future__ import annotations

import re

from hekla.api.field import Problem, forbidden, invalid, required
from hekla.api.field_rules import choice_problems, no_less_than_zero, target_port_problems
from hekla.api.kinds import Obj

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_USUAL_GRACE = 30


def lifecycle_problems(container: Obj, path: str, grace: int | None) -> list[Problem]:
    """`grace` is how long the pod has to end."""
    lifecycle = container.get("lifecycle") or {}
    problems: list[Problem] = []
    for moment in ("postStart", "preStop"):
        handler = lifecycle.get(moment)
        if handler is not None:
            problems += _handler_problems(handler, f"{path}.lifecycle.{moment}", grace)
    return problems


def probe_problems(container: Obj, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            problems += _probe_problems(name, probe, f"{path}.{name}")
    return problems


def _probe_problems(name: str, probe: Obj, path: str) -> list[Problem]:
    problems = _handler_problems(probe, path)
    for field in _SECONDS:
        problems += no_less_than_zero(probe, field, path)
    grace, successes = probe.get("terminationGracePeriodSeconds"), probe.get("successThreshold")
    if grace is not None and grace <= 0:
        problems.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if name == "readinessProbe":
        if grace is not None:
            why = "must not be set for readinessProbes"
            problems.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, why))
    elif successes not in (None, 0, 1):
        problems.append(invalid(f"{path}.successThreshold", successes, "must be 1"))
    return problems


def _handler_problems(handler: Obj, path: str, grace: int | None = None) -> list[Problem]:
    given = [field for field in _HANDLERS if handler.get(field) is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    problems = _one_handler(given[0], handler[given[0]], f"{path}.{given[0]}", grace)
    return problems + [forbidden(f"{path}.{one}", "may not specify more than 1 handler type") for one in given[1:]]


def _one_handler(kind: str, handler: Obj, path: str, grace: int | None) -> list[Problem]:
    if kind == "exec":
        return [] if handler.get("command") else [required(f"{path}.command")]
    if kind == "sleep":
        seconds, most = int(handler.get("seconds") or 0), _USUAL_GRACE if grace is None else grace
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({most})"
        return [] if 0 <= seconds <= most else [invalid(path, seconds, why)]
    problems = target_port_problems(handler.get("port"), f"{path}.port")
    if kind == "httpGet":
        problems += choice_problems(handler, "scheme", path, _SCHEMES)
        names = [str(header.get("name") or "") for header in handler.get("httpHeaders") or ()]
        problems += [
            invalid(f"{path}.httpHeaders", name, _HEADER_TEXT) for name in names if not _HEADER.fullmatch(name)
        ]
    return problems
