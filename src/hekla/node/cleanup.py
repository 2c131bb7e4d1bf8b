"""Ending pods without an agent: for pods nobody wants any more, and for the end of a whole local cluster.

Synchronous on purpose: it runs where there is no event loop left, and it must finish.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hekla.node import records
from hekla.node.directory import PodDirectory, all_pods, remove_tree
from hekla.node.hooks.cgroups import recorded_cgroups
from hekla.node.hooks.volumes import secret_root
from hekla.node.kept_logs import keep_logs
from hekla.node.runtime import Reason
from hekla.node.switch import RECORD, SOCKET
from hekla.node.uplink import undo

_KILL_SECONDS = 10.0


@dataclass(frozen=True)
class SweepReport:
    """What a sweep found and ended. `left` names what would not go."""

    pods: int = 0
    containers: int = 0
    left: tuple[str, ...] = ()


def sweep(data_dir: Path) -> SweepReport:
    """End every pod of the data directory, and its network; remove everything but records and logs.

    Those stay so that the next node can say what became of the pods, and never runs again what must run once.
    No agent may be running.
    """
    report, left = SweepReport(), list[str]()
    # The switch first: a sandbox that it is just making would come after we have looked.
    with _noting_failure(left):
        _end_switch(data_dir)
    with _noting_failure(left):
        report = _end_all(all_pods(data_dir))
    with _noting_failure(left):
        _remove_cgroups(data_dir)
    with _noting_failure(left):
        _remove_secrets(data_dir)
    with _noting_failure(left):
        undo(data_dir)
    return replace(report, left=(*report.left, *left))


@contextmanager
def _noting_failure(left: list[str], of: str = "") -> Iterator[None]:
    """What the machine refuses one step (a full disk, a program that is missing) must not keep us from the next."""
    try:
        yield
    except OSError as error:
        left.append(f"{of}: {error}" if of else str(error))


def _end_switch(data_dir: Path) -> None:
    switch = records.read(str(data_dir / RECORD))
    if switch:
        _kill(switch["process"])
        if switch.get("keeper"):
            _wait(switch["keeper"])
    (data_dir / SOCKET).unlink(missing_ok=True)


def _remove_cgroups(data_dir: Path) -> None:
    cgroups = recorded_cgroups(data_dir)
    if cgroups is not None:
        cgroups.remove()


def _remove_secrets(data_dir: Path) -> None:
    if data_dir.is_dir():
        remove_tree(secret_root(data_dir))


def sweep_others(data_dir: Path, nodes: Collection[str]) -> SweepReport:
    """End the pods of all nodes but these, which may be at work. Records and logs stay, as in a sweep."""
    others = [directory for directory in all_pods(data_dir) if directory.owner().get("node") not in nodes]
    report = _end_all(others)
    cgroups = recorded_cgroups(data_dir)
    if cgroups is not None:
        for directory in others:
            cgroups.remove(f"{directory.uid}.")
    return report


def _end_all(pods: Sequence[PodDirectory]) -> SweepReport:
    containers, left = 0, list[str]()
    for directory in pods:
        with _noting_failure(left, directory.uid):
            kill_sandbox(directory)  # first: without it no container is started any more
        with _noting_failure(left, directory.uid):
            ended, survivors = kill_containers(
                directory, Reason.SHUTDOWN, "the node was stopped while the container ran"
            )
            containers += ended
            left += survivors
            directory.remove_scratch()
    return SweepReport(len(pods), containers, tuple(left))


def running_pods(data_dir: Path) -> list[str]:
    """`namespace/name` of each pod of the data directory that has a living container."""
    found = []
    for directory in all_pods(data_dir):
        attempts = [one for name in directory.container_names() for one in directory.attempts(name)]
        if any(one.started and not one.exit and records.is_alive(one.started["container"]) for one in attempts):
            owner = directory.owner()
            found.append(f"{owner.get('namespace', '')}/{owner.get('name', '')}")
    return found


def end_pod(directory: PodDirectory) -> None:
    """Remove every trace of a pod whose object is gone, but for the logs that its Job keeps."""
    kill_containers(directory, Reason.STATUS_UNKNOWN, "")
    kill_sandbox(directory)
    cgroups = recorded_cgroups(directory.data_dir)
    if cgroups is not None:
        cgroups.remove(f"{directory.uid}.")
    if not keep_logs(directory):
        directory.remove()


def kill_containers(directory: PodDirectory, reason: str, message: str) -> tuple[int, list[str]]:
    """Kill what runs; what was killed gets `reason` on record. Gives the number ended and the names of survivors."""
    try:
        _stop_late_starts(directory)
    finally:
        # Though one of those could not be stopped.
        ended = _end_running(directory, reason, message)
    return ended


def _end_running(directory: PodDirectory, reason: str, message: str) -> tuple[int, list[str]]:
    running = [
        (name, attempt)
        for name in directory.container_names()
        for attempt in directory.attempts(name)
        if attempt.started is not None and attempt.exit is None
    ]
    survivors = []
    for name, attempt in running:
        assert attempt.started is not None
        _kill(attempt.started["container"])
        # The shim writes how the container ended and then goes by itself.
        if not _wait(attempt.started["shim"]) and not _kill(attempt.started["shim"]):
            survivors.append(f"{directory.uid}/{name}")
    for name, attempt in running:
        record = directory.exit_record(name, attempt.number) or {"code": 137, "startedAt": attempt.started_at}
        record["reason"], record["message"] = reason, message
        directory.write_exit(name, attempt.number, record)
    return len(running), survivors


def _stop_late_starts(directory: PodDirectory) -> None:
    """A killed agent may have left a shim that is still setting its container up. Take its place away.

    The shim claims its attempt by a record at a fixed path. Moved away, the attempt cannot be claimed any more; had
    it been claimed just before, it moves back and counts as running.
    """
    with ExitStack() as stopping:  # each, whatever the others met
        for name in directory.container_names():
            for number in directory.attempt_numbers(name):
                if not (directory.start_record(name, number) or directory.exit_record(name, number)):
                    stopping.callback(_retire, directory.attempt(name, number))


def _retire(place: Path) -> None:
    retired = place.with_name(f"{place.name}.retired")
    remove_tree(retired)
    place.rename(retired)
    if (retired / "started.json").exists():
        retired.rename(place)
    else:
        remove_tree(retired)


def kill_sandbox(directory: PodDirectory) -> None:
    sandbox = directory.sandbox()
    if sandbox:
        _kill(sandbox["process"])


def _kill(process: records.ProcessId) -> bool:
    """Kill and wait for the end; True when it is gone."""
    descriptor = records.open_process(process)
    if descriptor is None:
        return True
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)
    return _wait(process)


def _wait(process: records.ProcessId) -> bool:
    descriptor = records.open_process(process)
    if descriptor is None:
        return True
    try:
        return bool(select.select([descriptor], [], [], _KILL_SECONDS)[0])
    finally:
        os.close(descriptor)
