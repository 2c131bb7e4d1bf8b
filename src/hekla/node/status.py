"""Pod status as a kubelet computes it. Pure.

Conditions that belong to others (scheduler, readiness gates) are kept as they are; transition times move only when a
status does, so an unchanged pod gives an unchanged status and nothing is written.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hekla.api.core import POD_USED, PodPhase
from hekla.api.kinds import Obj
from hekla.api.meta import is_deleting, parse_timestamp, timestamp, uid_of
from hekla.node import lifecycle
from hekla.node.records import ExitRecord
from hekla.node.runtime import (
    Attempt,
    ContainerRuntime,
    PodRuntime,
    Reason,
    Waiting,
    init_containers,
    is_sidecar,
    main_containers,
    restart_policy,
)

HOST_ADDRESS = "127.0.0.1"


def pod_status(pod: Obj, runtime: PodRuntime, now: datetime) -> Obj:
    """The whole status: what the API server has, with everything the node knows put in."""
    old: Obj = pod.get("status") or {}
    steps = lifecycle.next_steps(pod, runtime, now)
    phase = _phase(pod, runtime, steps.finished)
    init = [_container_status(pod, each, runtime, is_init=True) for each in init_containers(pod)]
    main = [_container_status(pod, each, runtime, is_init=False) for each in main_containers(pod)]
    status = {key: value for key, value in old.items() if key not in ("reason", "message")}
    status["phase"] = phase.value
    status["startTime"] = old.get("startTime") or timestamp(now)
    status.setdefault("qosClass", qos_class(pod))
    status["hostIP"] = HOST_ADDRESS
    status["hostIPs"] = [{"ip": HOST_ADDRESS}]
    if runtime.address:
        status["podIP"] = runtime.address
        status["podIPs"] = [{"ip": runtime.address}]
    status["containerStatuses"] = main
    if init:
        status["initContainerStatuses"] = init
    if runtime.failed is not None:
        status["reason"], status["message"] = runtime.failed.reason, runtime.failed.message
    status["conditions"] = _conditions(pod, runtime, phase, init, main, now)
    return status


def used_by_container(runtime: PodRuntime) -> str:
    """What the pod's containers used, over all their attempts, as JSON by container; empty while none has ended.

    `cpuSeconds` and `seconds` are sums, and `filesLeft` and `bytesLeft` where there are any; `memory` is the most bytes
    an attempt had, `memoryBelow` a bound where that is all there is to know.
    """
    used = {name: _used(state.attempts) for name, state in sorted(runtime.containers.items())}
    used = {name: one for name, one in used.items() if one}
    return json.dumps(used, separators=(",", ":")) if used else ""


def _used(attempts: tuple[Attempt, ...]) -> dict[str, float]:
    ended = [attempt.exit for attempt in attempts if attempt.exit and attempt.exit.get("used")]
    if not ended:
        return {}
    total: dict[str, float] = {
        "cpuSeconds": round(sum(record["used"]["cpuSeconds"] for record in ended), 3),
        "seconds": round(sum(_lasted(record) for record in ended), 3),
    }
    known = [record["used"]["memory"] for record in ended if "memory" in record["used"]]
    bounds = [record["used"]["memoryBelow"] for record in ended if "memoryBelow" in record["used"]]
    if known:
        total["memory"] = max(known)
    elif bounds:
        total["memoryBelow"] = max(bounds)
    if any("filesLeft" in record["used"] for record in ended):
        total["filesLeft"] = sum(record["used"].get("filesLeft", 0) for record in ended)
        total["bytesLeft"] = sum(record["used"].get("bytesLeft", 0) for record in ended)
    return total


def _lasted(record: ExitRecord) -> float:
    return (parse_timestamp(record["finishedAt"]) - parse_timestamp(record["startedAt"])).total_seconds()


def qos_class(pod: Obj) -> str:
    containers = init_containers(pod) + main_containers(pod)
    resources = [each.get("resources") or {} for each in containers]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    for each in resources:
        requests, limits = each.get("requests") or {}, each.get("limits") or {}
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def _phase(pod: Obj, runtime: PodRuntime, finished: bool) -> PodPhase:
    if runtime.failed is not None:
        return PodPhase.FAILED if not runtime.anything_running else PodPhase.RUNNING
    if finished:
        if runtime.anything_running:
            return PodPhase.RUNNING  # sidecars are still to be stopped
        states = [_state(runtime, each) for each in main_containers(pod)]
        done = all(state.last is not None and lifecycle.succeeded(state) for state in states)
        return PodPhase.SUCCEEDED if done else PodPhase.FAILED
    if is_deleting(pod) and _has_ended(pod, runtime):
        states = [_state(runtime, each) for each in main_containers(pod)]
        return PodPhase.SUCCEEDED if all(map(lifecycle.succeeded, states)) else PodPhase.FAILED
    if not _initialized(pod, runtime):
        return PodPhase.PENDING
    started = all(_state(runtime, each).last is not None for each in main_containers(pod))
    return PodPhase.RUNNING if started else PodPhase.PENDING


def _has_ended(pod: Obj, runtime: PodRuntime) -> bool:
    """Whether something of a pod that is being deleted ran, and nothing does any more: restart policies end here."""
    ran = any(_state(runtime, each).last is not None for each in main_containers(pod))
    return ran and not runtime.anything_running


def _initialized(pod: Obj, runtime: PodRuntime) -> bool:
    return all(
        _state(runtime, each).running if is_sidecar(each) else lifecycle.succeeded(_state(runtime, each))
        for each in init_containers(pod)
    ) or any(_state(runtime, each).last is not None for each in main_containers(pod))


def _container_status(pod: Obj, container: Obj, runtime: PodRuntime, *, is_init: bool) -> Obj:
    state = _state(runtime, container)
    current, previous = _current_and_previous(pod, container, state, is_init=is_init)
    status: Obj = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": state.ready if not is_init or is_sidecar(container) else lifecycle.succeeded(state),
        "started": state.running and state.health.started,
        "restartCount": state.restart_count,
        "state": current if current is not None else _not_started(pod, runtime, is_init=is_init),
        "lastState": previous or {},
    }
    if state.last is not None:
        status["containerID"] = container_id(pod, container["name"], state.last.number)
    return status


def _current_and_previous(
    pod: Obj, container: Obj, state: ContainerRuntime, *, is_init: bool
) -> tuple[Obj | None, Obj | None]:
    """The state and the last state; None for a container that has not been started."""
    attempts = [_attempt_state(pod, state, each) for each in state.attempts]
    before = attempts[-2] if len(attempts) > 1 else None
    if state.last is None:
        return (_waiting(state.waiting) if state.waiting is not None else None), None
    if state.running:
        return attempts[-1], before
    policy = restart_policy(pod)
    if is_init:
        policy = "Always" if is_sidecar(container) else ("OnFailure" if policy != "Never" else "Never")
    if not lifecycle.will_restart(state, policy):
        return attempts[-1], before
    if state.waiting is not None:
        return _waiting(state.waiting), attempts[-1]
    seconds = lifecycle.back_off(state)
    if not seconds:
        return attempts[-1], before
    meta = pod["metadata"]
    where = f"container={state.name} pod={meta['name']}_{meta.get('namespace', '')}({uid_of(pod)})"
    message = f"back-off {_duration(seconds)} restarting failed {where}"
    return _waiting(Waiting(Reason.CRASH_LOOP, message)), attempts[-1]


def _attempt_state(pod: Obj, state: ContainerRuntime, attempt: Attempt) -> Obj:
    if attempt.exit is None:
        return {"running": {"startedAt": _seconds(attempt.started_at)}}
    record = attempt.exit
    terminated: Obj = {
        "exitCode": record["code"],
        "reason": record.get("reason") or ("Completed" if record["code"] == 0 else "Error"),
        "containerID": container_id(pod, state.name, attempt.number),
    }
    for key, value in (("startedAt", attempt.started_at), ("finishedAt", record.get("finishedAt", ""))):
        if value:
            terminated[key] = _seconds(value)
    for key in ("signal", "message"):
        if record.get(key):
            terminated[key] = record[key]  # type: ignore[literal-required]
    return {"terminated": terminated}


def _not_started(pod: Obj, runtime: PodRuntime, *, is_init: bool) -> Obj:
    if runtime.failed is not None:
        return _waiting(runtime.failed)
    if not is_init and init_containers(pod) and not _initialized(pod, runtime):
        return _waiting(Waiting(Reason.INITIALIZING))
    return _waiting(Waiting(Reason.CREATING))


def _waiting(waiting: Waiting) -> Obj:
    return {"waiting": {"reason": str(waiting.reason), **({"message": waiting.message} if waiting.message else {})}}


def _conditions(
    pod: Obj, runtime: PodRuntime, phase: PodPhase, init: list[Obj], main: list[Obj], now: datetime
) -> list[Obj]:
    old = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    over = phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    initialized = _initialized(pod, runtime) or phase is PodPhase.SUCCEEDED
    unready = [each["name"] for each in main if not each["ready"]]
    incomplete = [each["name"] for each in init if not each["ready"]]
    ready = _readiness(unready, phase)
    wanted: dict[str, tuple[bool, str, str]] = {
        "PodReadyToStartContainers": (bool(runtime.address) and not over, "", ""),
        "Initialized": (
            (True, "PodCompleted" if phase is PodPhase.SUCCEEDED else "", "")
            if initialized
            else (False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]")
        ),
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": (True, "", ""),
    }
    if used := used_by_container(runtime):
        wanted[POD_USED] = (True, "ContainersEnded", used)
    ours = [_condition(name, *found, old.get(name), now) for name, found in wanted.items()]
    return ours + [each for name, each in old.items() if name not in wanted]


def _readiness(unready: list[str], phase: PodPhase) -> tuple[bool, str, str]:
    if phase is PodPhase.SUCCEEDED:
        return (False, "PodCompleted", "")
    if phase is PodPhase.FAILED:
        return (False, "PodFailed", "")
    if unready:
        return (False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    return (True, "", "")


def _condition(name: str, holds: bool, reason: str, message: str, old: Obj | None, now: datetime) -> Obj:
    status = "True" if holds else "False"
    unchanged = old is not None and old.get("status") == status
    condition: dict[str, Any] = {
        "type": name,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": old["lastTransitionTime"]
        if unchanged and old and old.get("lastTransitionTime")
        else timestamp(now),
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def container_id(pod: Obj, name: str, attempt: int) -> str:
    return f"hekla://{uid_of(pod)}/{name}/{attempt}"


def _state(runtime: PodRuntime, container: Obj) -> ContainerRuntime:
    return runtime.containers.get(container["name"]) or ContainerRuntime(container["name"])


def _seconds(text: str) -> str:
    """Records carry nanoseconds; metav1.Time has seconds."""
    return timestamp(parse_timestamp(text.partition(".")[0] + "Z" if "." in text else text))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
