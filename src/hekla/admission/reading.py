"""Whether a Job can be read as upstream's types read it: what is of the wrong type is refused, in upstream's words.

The embedded pod templates are left to the schema check that follows, whose words name the field as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hekla.api.duration import InvalidDuration, parse_duration
from hekla.api.kinds import Obj

_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True)
class Scalar:
    """A value of one JSON type; `name` is what it is called upstream, `integers` those it can hold."""

    name: str
    integers: range | None = None


@dataclass(frozen=True)
class Struct:
    struct: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    package: str = "v1alpha1"

    @property
    def name(self) -> str:
        return f"{self.package}.{self.struct}"


@dataclass(frozen=True)
class ListOf:
    item: Any
    name: str


@dataclass(frozen=True)
class MapOf:
    value: Any
    name: str


@dataclass(frozen=True)
class Duration:
    name: str = "v1.Duration"


STRING = Scalar("string")
INT32 = Scalar("int32", _INT32)
STRINGS = ListOf(STRING, "[]string")
TOPOLOGY = Struct(
    "NetworkTopologySpec",
    {
        "mode": Scalar("v1alpha1.NetworkTopologyMode"),
        "highestTierAllowed": Scalar("int", range(-(1 << 63), 1 << 63)),
        "highestTierName": STRING,
    },
)
POLICY = Struct(
    "LifecyclePolicy",
    {
        "action": Scalar("v1alpha1.Action"),
        "event": Scalar("v1alpha1.Event"),
        "events": ListOf(Scalar("v1alpha1.Event"), "[]v1alpha1.Event"),
        "exitCode": INT32,
        "timeout": Duration(),
    },
)
POLICIES = ListOf(POLICY, "[]v1alpha1.LifecyclePolicy")
TASK = Struct(
    "TaskSpec",
    {
        "name": STRING,
        "replicas": INT32,
        "minAvailable": INT32,
        "template": Struct("PodTemplateSpec", package="v1"),
        "policies": POLICIES,
        "topologyPolicy": Scalar("v1alpha1.NumaPolicy"),
        "maxRetry": INT32,
        "dependsOn": Struct("DependsOn", {"name": STRINGS, "iteration": Scalar("v1alpha1.Iteration")}),
        "partitionPolicy": Struct(
            "PartitionPolicySpec",
            {"totalPartitions": INT32, "partitionSize": INT32, "minPartitions": INT32, "networkTopology": TOPOLOGY},
        ),
    },
)
CLAIM = Struct("PersistentVolumeClaimSpec", package="v1")
VOLUME = Struct("VolumeSpec", {"mountPath": STRING, "volumeClaimName": STRING, "volumeClaim": CLAIM})
JOB = Struct(
    "Job",
    {
        "spec": Struct(
            "JobSpec",
            {
                "schedulerName": STRING,
                "minAvailable": INT32,
                "volumes": ListOf(VOLUME, "[]v1alpha1.VolumeSpec"),
                "tasks": ListOf(TASK, "[]v1alpha1.TaskSpec"),
                "policies": POLICIES,
                "plugins": MapOf(STRINGS, "map[string][]string"),
                "runningEstimate": Duration(),
                "queue": STRING,
                "maxRetry": INT32,
                "ttlSecondsAfterFinished": INT32,
                "priorityClassName": STRING,
                "minSuccess": INT32,
                "networkTopology": TOPOLOGY,
            },
        )
    },
)


@dataclass(frozen=True)
class Misread:
    """A value that cannot be read: where, what to tell a person, upstream's words, and whether it reads no further."""

    path: str
    message: str
    upstream: str
    ends: bool = False


def unreadable(job: Obj) -> str:
    """Why upstream could not read the Job; empty when it can."""
    found = misread(job)
    # A duration that is none ends the reading at once; a wrong type is told when everything has been read.
    ending = [one for one in found if one.ends]
    return next((one.upstream for one in ending or found), "")


def misread(job: Obj) -> list[Misread]:
    """Everything in a Job that is of the wrong type."""
    return list(_misread(job, JOB, _Place("", "", "")))


@dataclass(frozen=True)
class _Place:
    """Where a value stands: as people write it, and as Go does, which counts no items and names the struct."""

    path: str
    struct: str
    fields: str

    def field(self, struct: str, name: str) -> _Place:
        return _Place(f"{self.path}.{name}".lstrip("."), struct, f"{self.fields}.{name}".lstrip("."))

    def inner(self, key: int | str) -> _Place:
        return _Place(f"{self.path}[{key}]", self.struct, self.fields)


def _misread(value: Any, kind: Any, place: _Place) -> Iterator[Misread]:
    """Fields in the order in which a server sends them: by name."""
    if value is None:
        return
    match kind:
        case Struct() if isinstance(value, dict):
            for name in sorted(value):
                if name in kind.fields:
                    yield from _misread(value[name], kind.fields[name], place.field(kind.struct, name))
        case ListOf() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _misread(item, kind.item, place.inner(index))
        case MapOf() if isinstance(value, dict):
            for name in sorted(value):
                yield from _misread(value[name], kind.value, place.inner(name))
        case Duration():
            fault = _duration_fault(value)
            if fault:
                yield Misread(place.path, f"{value!r} is not a duration such as 90s, 5m or 1h30m", fault, ends=True)
        case Scalar() if _holds(kind, value):
            return
        case _:
            words = (
                f"json: cannot unmarshal {_json_kind(value, kind)} into Go struct field {place.struct}.{place.fields}"
            )
            yield Misread(place.path, f"must be {_wanted(kind)}, not {value!r}", f"{words} of type {kind.name}")


def _wanted(kind: Any) -> str:
    match kind:
        case Scalar():
            return "text" if kind.integers is None else "a whole number"
        case ListOf():
            return "a list"
        case _:
            return "a mapping"


def _holds(kind: Scalar, value: Any) -> bool:
    if kind.integers is None:
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool) and value in kind.integers


def _duration_fault(value: Any) -> str:
    if not isinstance(value, str):
        return f"json: cannot unmarshal {_json_kind(value, STRING)} into Go value of type string"
    try:
        parse_duration(value)
    except InvalidDuration as error:
        return str(error)
    return ""


def _json_kind(value: Any, wanted: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        number = isinstance(wanted, Scalar) and wanted.integers is not None
        return f"number {value}" if number else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
