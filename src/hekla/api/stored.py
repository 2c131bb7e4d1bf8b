"""How upstream stores what it has read and written back: by its types, in which most empty values are no values.

A number, text or switch that is zero is left out, unless its type tells zero from nothing (`_TOLD_APART`); so is an
empty list or map, but not an empty object (`emptyDir: {}`), which is a wish. Amounts and durations have one spelling.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from hekla.api.duration import canonical_duration
from hekla.api.kinds import Obj
from hekla.api.quantity import canonical
from hekla.api.remembered import remembered
from hekla.api.upstream_types import TASK
from hekla.api.written import written

# Maps of names that people choose: what is in them stays as it is, empty texts included.
_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "options", "plugins", "volumeAttributes"})
_AMOUNTS = frozenset({"limits", "overhead", "requests"})
_AMOUNT = frozenset({"divisor", "sizeLimit"})
_DURATIONS = frozenset({"runningEstimate", "timeout"})
# Lists of names with values: these are always written, unlike the value of a variable.
_VALUED = frozenset({"httpHeaders", "sysctls"})
_TOLD_APART = frozenset(
    {
        # of a Job and its tasks
        "exitCode", "highestTierAllowed", "minAvailable", "minSuccess", "ttlSecondsAfterFinished",
        # of a pod
        "activeDeadlineSeconds", "automountServiceAccountToken", "enableServiceLinks", "hostUsers", "preemptionPolicy",
        "hostnameOverride", "minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy", "priority", "runtimeClassName",
        "service", "setHostnameAsFQDN", "shareProcessNamespace", "terminationGracePeriodSeconds", "tolerationSeconds",
        # of who it runs as
        "allowPrivilegeEscalation", "fsGroup", "fsGroupChangePolicy", "hostProcess", "localhostProfile", "privileged",
        "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxChangePolicy",
        "supplementalGroupsPolicy",
        # of its volumes
        "defaultMode", "expirationSeconds", "mode", "mountPropagation", "optional", "recursiveReadOnly",
        "storageClassName", "type", "volumeMode",
        # always there
        "containerPort", "containers", "lun", "maxSkew", "name", "port", "seconds", "weight",
    }
)  # fmt: skip
# What is written of these even where nobody has said anything.
_ALWAYS: dict[str, Obj] = {
    "grpc": {"port": 0},
    "httpGet": {"port": 0},
    "resourceFieldRef": {"divisor": "0"},
    "sleep": {"seconds": 0},
    "tcpSocket": {"port": 0},
}


def job_spec_as_stored(spec: Obj) -> Obj:
    """A copy of a Job's spec as upstream's controllers send it: what cannot be read stays, for a server to refuse."""
    try:
        stored: Obj = as_stored(spec)
        tasks = [task_as_stored(task) for task in stored.get("tasks") or ()]
    except ValueError:
        return deepcopy(spec)
    return {**stored, "tasks": tasks} if tasks else stored


def pod_spec_as_stored(spec: Obj) -> Obj:
    """A copy of a pod's spec as upstream's controllers send it: what cannot be read stays, for a server to refuse."""
    stored: Obj = msgspec.json.decode(_encoded_as_stored(msgspec.json.encode(spec)))
    return stored


@remembered
def _encoded_as_stored(encoded: bytes) -> bytes:
    """Who runs thousands of small jobs writes the same into most of them."""
    try:
        return msgspec.json.encode(as_stored(msgspec.json.decode(encoded)))
    except ValueError:
        return encoded


def task_as_stored(given: Obj) -> Obj:
    """A task as upstream stores it, in which some things are always written. Raises as `as_stored` does."""
    task: Obj = written(given, TASK)
    return task


def as_stored(value: Any) -> Any:
    """A copy as upstream would store it. Raises InvalidQuantity or InvalidDuration."""
    if isinstance(value, list):
        return [as_stored(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _field(name, inner) for name, inner in value.items() if inner is not None}
    stored = {name: inner for name, inner in kept.items() if name in _TOLD_APART or not _is_nothing(name, inner)}
    for name in _ALWAYS.keys() & stored.keys():
        if isinstance(stored[name], dict):
            stored[name] = {**_ALWAYS[name], **stored[name]}
    return stored


def _field(name: str, value: Any) -> Any:
    if name in _MAPS:
        return value
    if name in _AMOUNTS and isinstance(value, dict):
        return {resource: canonical(amount) for resource, amount in value.items()}
    if name in _AMOUNT and isinstance(value, str | int | float):
        return canonical(value)
    if name in _DURATIONS and isinstance(value, str):
        return canonical_duration(value)
    if name in _VALUED and isinstance(value, list):
        return [{"value": "", **as_stored(item)} if isinstance(item, dict) else item for item in value]
    return as_stored(value)


def _is_nothing(name: str, value: Any) -> bool:
    if isinstance(value, dict):
        return not value and (name in _MAPS or name in _AMOUNTS)
    return not value
