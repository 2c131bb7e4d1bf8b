"""Who the processes of a pod are, and what they may do."""

from __future__ import annotations

import re

from hekla.api.field import Problem, duplicate, invalid, required
from hekla.api.field_rules import MOST_INT32, choice_or_absent_problems, choice_problems, range_problems
from hekla.api.kinds import Obj

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_TEXT = (
    "must have at most 253 characters and match regex "
    r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)
# Settings of a namespace that a pod may share with its node.
_OF_THE_HOST = ((("net.",), "hostNetwork"), (("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."), "hostIPC"))
_PRIVILEGED = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
# How a security context is shown as a whole, in this order.
_SHOWN = (
    "Capabilities", "Privileged", "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot",
    "ReadOnlyRootFilesystem", "AllowPrivilegeEscalation", "ProcMount", "SeccompProfile", "AppArmorProfile",
)  # fmt: skip


def pod_security_problems(spec: Obj, path: str) -> list[Problem]:
    context, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    problems: list[Problem] = []
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        problems += range_problems(context, field, where, 0)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= MOST_INT32:
            why = f"must be between 0 and {MOST_INT32}, inclusive"
            problems.append(invalid(f"{where}.supplementalGroups[{index}]", group, why))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        problems.append(invalid(f"{where}.shareProcessNamespace", True, why))
    problems += _sysctl_problems(context.get("sysctls") or [], f"{where}.sysctls", spec)
    problems += choice_or_absent_problems(context, "fsGroupChangePolicy", where, ("Always", "OnRootMismatch"))
    return problems + _profile_problems(context.get("seccompProfile"), f"{where}.seccompProfile")


def security_problems(container: Obj, path: str) -> list[Problem]:
    context, where = container.get("securityContext") or {}, f"{path}.securityContext"
    problems = range_problems(context, "runAsUser", where, 0) + range_problems(context, "runAsGroup", where, 0)
    problems += choice_or_absent_problems(context, "procMount", where, ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        shown = {field: context.get(field[0].lower() + field[1:]) for field in _SHOWN}
        problems.append(invalid(where, shown, _PRIVILEGED))
    return problems + _profile_problems(context.get("seccompProfile"), f"{where}.seccompProfile")


def _sysctl_problems(sysctls: list[Obj], path: str, spec: Obj) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        where, name = f"{path}[{index}].name", str(sysctl.get("name") or "")
        if not name:
            problems.append(required(where))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            problems.append(invalid(where, name, _SYSCTL_TEXT))
        elif name in seen:
            problems.append(duplicate(where, f'"{name}"'))
        problems += [
            invalid(where, name, f"may not be specified when '{field}' is true")
            for prefixes, field in _OF_THE_HOST
            if name.replace("/", ".").startswith(prefixes) and spec.get(field)
        ]
        seen.add(name)
    return problems


def _profile_problems(profile: Obj | None, path: str) -> list[Problem]:
    if profile is None:
        return []
    kind, local = profile.get("type"), profile.get("localhostProfile")
    if kind == "Localhost" and not local:
        return [required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")]
    if kind != "Localhost" and local:
        shown = {"Type": kind or "", "LocalhostProfile": local}
        return [invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost")]
    if not kind:
        return [required(f"{path}.type", "type is required when seccompProfile is set")]
    return choice_problems(profile, "type", path, _PROFILES)
