"""What an earlier agent left: from records on disk and, where those are lost, from the status the API server has."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hekla.api.kinds import Obj
from hekla.api.meta import timestamp
from hekla.node import records
from hekla.node.directory import PodDirectory
from hekla.node.hooks.probes import Health, initial_health
from hekla.node.records import ExitRecord
from hekla.node.runtime import (
    Attempt,
    ContainerRuntime,
    PodRuntime,
    Reason,
    Waiting,
    init_containers,
    main_containers,
    restart_policy,
)
from hekla.node.status import container_id

_SHUTDOWN = "The node was stopped while the pod ran"


def take_back(pod: Obj, directory: PodDirectory, now: datetime) -> PodRuntime:
    """The pod as it is. An attempt whose processes are gone without a record is ended here, on disk too."""
    runtime = PodRuntime(address=str(directory.sandbox().get("address") or _reported_address(pod)))
    for container in init_containers(pod) + main_containers(pod):
        runtime = runtime.with_container(_container(pod, container, directory, now))
    if restart_policy(pod) == "Never" and any(map(_was_shut_down, runtime.containers.values())):
        runtime = replace(runtime, failed=Waiting(Reason.SHUTDOWN, _SHUTDOWN))
    return runtime


def _container(pod: Obj, container: Obj, directory: PodDirectory, now: datetime) -> ContainerRuntime:
    name = container["name"]
    attempts = directory.attempts(name)
    reported = _reported_status(pod, name)
    restarts = int(reported.get("restartCount") or 0)
    if not attempts and reported.get("containerID"):
        lost = Attempt(restarts, _reported_start(reported), None, _reported_exit(reported, now))
        directory.write_exit(name, restarts, lost.exit or {})
        return ContainerRuntime(name, (lost,), restarts_before=restarts)
    attempts = tuple(_ended_if_dead(name, attempt, directory, now) for attempt in attempts)
    before = attempts[0].number if attempts else 0
    return ContainerRuntime(name, attempts, restarts_before=before, health=_health(pod, container, attempts, reported))


def _health(pod: Obj, container: Obj, attempts: tuple[Attempt, ...], reported: Obj) -> Health:
    """As last reported of the attempt that runs; its probes will tell if that has changed."""
    if attempts and reported.get("containerID") == container_id(pod, container["name"], attempts[-1].number):
        return Health(started=bool(reported.get("started")), ready=bool(reported.get("ready")))
    return initial_health(container)


def _ended_if_dead(name: str, attempt: Attempt, directory: PodDirectory, now: datetime) -> Attempt:
    if attempt.exit is not None or attempt.started is None or records.is_alive(attempt.started["shim"]):
        return attempt
    # The shim writes its last record before it goes: read again now that it is known to be gone.
    record = directory.exit_record(name, attempt.number)
    if record is None:
        record = ExitRecord(
            code=137,
            reason=Reason.STATUS_UNKNOWN,
            message="The container could not be located when the node came back",
            startedAt=attempt.started_at,
            finishedAt=timestamp(now),
        )
        directory.write_exit(name, attempt.number, record)
    return replace(attempt, exit=record)


def _was_shut_down(container: ContainerRuntime) -> bool:
    return container.last is not None and (container.last.exit or {}).get("reason") == Reason.SHUTDOWN


def _reported_status(pod: Obj, name: str) -> Obj:
    status = pod.get("status") or {}
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        if entry.get("name") == name:
            found: Obj = entry
            return found
    return {}


def _reported_address(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("podIP") or "")


def _reported_start(reported: Obj) -> str:
    state = reported.get("state") or {}
    return str((state.get("running") or state.get("terminated") or {}).get("startedAt") or "")


def _reported_exit(reported: Obj, now: datetime) -> ExitRecord:
    """How the last known attempt ended: as reported, or by the loss of the node's records."""
    terminated = (reported.get("state") or {}).get("terminated") or (
        (reported.get("lastState") or {}).get("terminated")
        if not (reported.get("state") or {}).get("running")
        else None
    )
    if terminated:
        record = ExitRecord(code=int(terminated.get("exitCode", 0)), reason=str(terminated.get("reason", "")))
        for key in ("startedAt", "finishedAt", "message"):
            if terminated.get(key):
                record[key] = terminated[key]
        return record
    return ExitRecord(
        code=137,
        reason=Reason.SHUTDOWN,
        message=_SHUTDOWN,
        startedAt=_reported_start(reported),
        finishedAt=timestamp(now),
    )
