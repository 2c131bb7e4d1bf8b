"""What kubectl's users know of a pod in one line."""

from __future__ import annotations

from datetime import datetime

from hekla.api.kinds import Obj
from hekla.apiserver.columns.cells import AGE, NAME, NONE, age, at, text


def _statuses(pod: Obj) -> list[Obj]:
    return (pod.get("status") or {}).get("containerStatuses") or []


def _init_statuses(pod: Obj) -> list[Obj]:
    return (pod.get("status") or {}).get("initContainerStatuses") or []


def _sidecars(pod: Obj) -> set[str | None]:
    """Init containers that stay, and are counted with the others."""
    listed = (pod.get("spec") or {}).get("initContainers") or ()
    return {each.get("name") for each in listed if each.get("restartPolicy") == "Always"}


def _pod_ready(pod: Obj, now: datetime) -> str:
    sidecars = _sidecars(pod)
    ready = sum(bool(each.get("ready")) for each in _statuses(pod))
    ready += sum(
        each.get("name") in sidecars and _stays(each) and bool(each.get("ready")) for each in _init_statuses(pod)
    )
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or ()) + len(sidecars)}"


def _stays(status: Obj) -> bool:
    return bool(status.get("started"))


def pod_status(pod: Obj, now: datetime) -> str:
    """The one word kubectl shows for a pod: the worst of its phase, its containers and its deletion."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    gated = any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in status.get("conditions") or ()
    )
    if gated:
        reason = "SchedulingGated"
    init = _init_reason(pod)
    if init:
        reason = init
    else:
        for each in reversed(_statuses(pod)):
            reason = _container_reason(each) or reason
        if reason == "Completed" and any(_runs(each) for each in _statuses(pod)):
            reason = "Running" if _is_ready(status) else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _runs(status: Obj) -> bool:
    return bool(status.get("ready")) and (status.get("state") or {}).get("running") is not None


def _is_ready(status: Obj) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _init_reason(pod: Obj) -> str:
    """How far its start has come; nothing once that is over."""
    sidecars = _sidecars(pod)
    for index, each in enumerate(_init_statuses(pod)):
        state = each.get("state") or {}
        terminated = state.get("terminated")
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if each.get("name") in sidecars and _stays(each):
            continue
        if terminated is not None:
            return f"Init:{_container_reason(each)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len((pod.get('spec') or {}).get('initContainers') or ())}"
    return ""


def _container_reason(status: Obj) -> str:
    state = status.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated")
    if waiting.get("reason"):
        return str(waiting["reason"])
    if terminated is None:
        return ""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _pod_restarts(pod: Obj, now: datetime) -> str:
    if _init_reason(pod):
        counted = _init_statuses(pod)
    else:
        sidecars = _sidecars(pod)
        counted = [*_statuses(pod), *(each for each in _init_statuses(pod) if each.get("name") in sidecars)]
    total = sum(int(each.get("restartCount") or 0) for each in counted)
    finished = [
        each["lastState"]["terminated"]["finishedAt"]
        for each in counted
        if ((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    ]
    return f"{total} ({age(max(finished), now)} ago)" if total and finished else str(total)


def _readiness_gates(pod: Obj, now: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or []
    if not gates:
        return NONE
    true = {c.get("type") for c in (pod.get("status") or {}).get("conditions") or () if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


PODS = [
    NAME,
    text("Ready", _pod_ready),
    text("Status", pod_status),
    text("Restarts", _pod_restarts),
    AGE,
    text("IP", at("status", "podIP"), 1),
    text("Node", at("spec", "nodeName"), 1),
    text("Nominated Node", at("status", "nominatedNodeName"), 1),
    text("Readiness Gates", _readiness_gates, 1),
]
