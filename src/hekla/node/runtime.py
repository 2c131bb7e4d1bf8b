"""What has become of a pod's containers: values, no I/O.

Built from the records on disk (`worker.py` reads them) and, where those are lost, from the status the API server
still has. `lifecycle.py` and `status.py` decide from these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from hekla.api.kinds import Obj
from hekla.node.hooks.probes import Health
from hekla.node.records import ExitRecord, StartRecord


class Reason(StrEnum):
    """Why a container waits or a pod failed, in Kubernetes' words where it has one."""

    CREATING = "ContainerCreating"
    INITIALIZING = "PodInitializing"
    CRASH_LOOP = "CrashLoopBackOff"
    CONFIG_ERROR = "CreateContainerConfigError"
    CREATE_ERROR = "CreateContainerError"
    NO_IMAGE = "ErrImageNeverPull"
    PULL_FAILED = "ErrImagePull"
    STATUS_UNKNOWN = "ContainerStatusUnknown"
    DEADLINE = "DeadlineExceeded"
    EVICTED = "Evicted"
    SHUTDOWN = "NodeShutdown"
    UNSUPPORTED = "NotSupported"


@dataclass(frozen=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Attempt:
    """One run of a container. Without an exit it is running."""

    number: int
    started_at: str
    started: StartRecord | None = None
    exit: ExitRecord | None = None

    @property
    def running(self) -> bool:
        return self.exit is None


@dataclass(frozen=True)
class ContainerRuntime:
    name: str
    attempts: tuple[Attempt, ...] = ()
    waiting: Waiting | None = None
    restarts_before: int = 0  # attempts whose records are lost, counted from the API server's status
    health: Health = field(default_factory=Health)  # of the attempt that runs

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def running(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].running

    @property
    def ready(self) -> bool:
        return self.running and self.health.ready

    @property
    def restart_count(self) -> int:
        return max(0, self.restarts_before + len(self.attempts) - 1)

    @property
    def next_number(self) -> int:
        return self.attempts[-1].number + 1 if self.attempts else self.restarts_before

    def started(self, record: StartRecord) -> ContainerRuntime:
        attempt = Attempt(self.next_number, record["startedAt"], record)
        return replace(self, attempts=(*self.attempts, attempt), waiting=None)

    def ended(self, number: int, record: ExitRecord) -> ContainerRuntime:
        attempts = tuple(replace(each, exit=record) if each.number == number else each for each in self.attempts)
        return replace(self, attempts=attempts)

    def failed_to_start(self, record: ExitRecord) -> ContainerRuntime:
        """An attempt that never ran and never will: counts like one that ended."""
        attempt = Attempt(self.next_number, record.get("startedAt", ""), None, record)
        return replace(self, attempts=(*self.attempts, attempt), waiting=None)


@dataclass(frozen=True)
class PodRuntime:
    """`failed` is a verdict on the whole pod (deadline, shutdown, not supported) that no container can change."""

    containers: dict[str, ContainerRuntime] = field(default_factory=dict)
    address: str = ""
    failed: Waiting | None = None

    def with_container(self, container: ContainerRuntime) -> PodRuntime:
        return replace(self, containers={**self.containers, container.name: container})

    @property
    def anything_running(self) -> bool:
        return any(container.running for container in self.containers.values())


def init_containers(pod: Obj) -> list[Obj]:
    return pod["spec"].get("initContainers") or []


def main_containers(pod: Obj) -> list[Obj]:
    return pod["spec"].get("containers") or []


def is_sidecar(container: Obj) -> bool:
    """An init container that keeps running beside the main ones."""
    return container.get("restartPolicy") == "Always"


def restart_policy(pod: Obj) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")
