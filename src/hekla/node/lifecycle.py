"""What a pod needs next: pure decisions from its spec, what its containers have done, and the time.

Follows the kubelet: init containers in order, sidecars among them kept running, then all main containers at once;
restart policy with a back-off that starts at nothing, then 10 s, doubling to 300 s, forgotten after ten good minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hekla.api.kinds import Obj
from hekla.api.meta import parse_timestamp
from hekla.node.runtime import (
    ContainerRuntime,
    PodRuntime,
    init_containers,
    is_sidecar,
    main_containers,
    restart_policy,
)

_FIRST_BACK_OFF = 10.0
_LONGEST_BACK_OFF = 300.0
_FORGOTTEN_AFTER = 600.0


@dataclass(frozen=True)
class Steps:
    """`start` these now; look again in `wake_after` seconds; `finished`: nothing will ever run again."""

    start: tuple[str, ...] = ()
    wake_after: float | None = None
    finished: bool = False


Rested = Callable[[ContainerRuntime], float]


def next_steps(pod: Obj, runtime: PodRuntime, now: datetime, rested: Rested = lambda _: 0.0) -> Steps:
    """`rested`: for how many seconds one whose last attempt has ended was seen to wait, whatever the clock says."""
    if runtime.failed is not None:
        return Steps(finished=True)
    # 1. Init containers, one after the other; a sidecar only needs to have been started.
    starts: list[str] = []
    waits: list[float] = []
    for container in init_containers(pod):
        state = _state(runtime, container)
        if is_sidecar(container):
            _plan_start(state, starts, waits, now, rested, "Always")
            if state.last is None or (state.running and not state.health.started):
                return _steps(starts, waits)
            continue
        if succeeded(state):
            continue
        if state.running:
            return _steps(starts, waits)
        if _gives_up(state, restart_policy(pod)):
            return Steps(finished=True)
        _plan_start(state, starts, waits, now, rested, "OnFailure")
        return _steps(starts, waits)
    # 2. Main containers, all together.
    states = [_state(runtime, container) for container in main_containers(pod)]
    if all(_is_over(state, restart_policy(pod)) for state in states):
        return Steps(finished=True)
    for state in states:
        _plan_start(state, starts, waits, now, rested, restart_policy(pod))
    return _steps(starts, waits)


def time_left(pod: Obj, active_for: float) -> float | None:
    """Seconds until a pod that has been active for so many must have ended, if its spec says so."""
    seconds = pod["spec"].get("activeDeadlineSeconds")
    return None if seconds is None else float(seconds) - active_for


def grace_seconds(pod: Obj) -> float:
    """How long containers have between being asked and being made to stop."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds")
    return 30.0 if asked is None else max(0.0, float(asked))


def succeeded(state: ContainerRuntime) -> bool:
    return state.last is not None and state.last.exit is not None and state.last.exit["code"] == 0


def back_off(state: ContainerRuntime) -> float:
    """Seconds between the end of the last attempt and the next one."""
    failures = 0
    for attempt in reversed(state.attempts):
        if attempt.exit is None:
            continue
        failures += 1
        if _ran_for(attempt.started_at, attempt.exit.get("finishedAt", "")) >= _FORGOTTEN_AFTER:
            break
    if failures < 2:
        return 0.0
    return float(min(_FIRST_BACK_OFF * 2 ** min(failures - 2, 10), _LONGEST_BACK_OFF))


def will_restart(state: ContainerRuntime, policy: str) -> bool:
    """Whether an ended container is to run again."""
    return not _is_over(state, policy) and state.last is not None and not state.running


def _state(runtime: PodRuntime, container: Obj) -> ContainerRuntime:
    return runtime.containers.get(container["name"]) or ContainerRuntime(container["name"])


def _is_over(state: ContainerRuntime, policy: str) -> bool:
    if state.last is None or state.last.exit is None or policy == "Always":
        return False
    return policy == "Never" or state.last.exit["code"] == 0


def _gives_up(state: ContainerRuntime, policy: str) -> bool:
    return policy == "Never" and state.last is not None and not state.running


def _plan_start(
    state: ContainerRuntime, starts: list[str], waits: list[float], now: datetime, rested: Rested, policy: str
) -> None:
    if state.running or _is_over(state, policy):
        return
    wait = _wait_before_start(state, now, rested)
    if wait <= 0:
        starts.append(state.name)
    else:
        waits.append(wait)


def _wait_before_start(state: ContainerRuntime, now: datetime, rested: Rested) -> float:
    if state.last is None or state.last.exit is None or not state.last.exit.get("finishedAt"):
        return 0.0
    longest = back_off(state)
    due = parse_timestamp(state.last.exit["finishedAt"]) + timedelta(seconds=longest)
    # A clock set back must not make it wait longer than it was told.
    return min((due - now).total_seconds(), longest - rested(state))


def _steps(starts: list[str], waits: list[float]) -> Steps:
    return Steps(tuple(starts), min(waits) if waits else None)


def _ran_for(started: str, finished: str) -> float:
    if not started or not finished:
        return 0.0
    return (parse_timestamp(finished) - parse_timestamp(started)).total_seconds()
