"""The Job's status: counters from pods, conditions from phases, and the rule for when it is worth writing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from hekla.api.core import PodPhase
from hekla.api.duration import format_duration
from hekla.api.kinds import Obj
from hekla.api.meta import parse_timestamp, timestamp
from hekla.controllers.job.lifecycle import Counts
from hekla.controllers.job.model import Job, Pod
from hekla.controllers.job.pods import pod_name

# How a pod that somebody else is deleting is counted in its task, so that its going is noticed even by a controller
# that was not there to see it.
LEAVING = "Terminating"
_COUNTED: dict[str, str] = {
    PodPhase.PENDING: "pending",
    PodPhase.RUNNING: "running",
    PodPhase.SUCCEEDED: "succeeded",
    PodPhase.FAILED: "failed",
}


def count_pods(
    job: Job,
    pods: Iterable[Pod],
    killed: Iterable[str] = (),
    created: Iterable[Pod] = (),
    awaited: Collection[str] = (),
) -> Counts:
    """Pods by phase.

    `killed` (uids) are on their way out because of us, `created` are not in `pods` yet, `awaited` (names) are gone and
    still to be answered for.
    """
    gone = set(killed)
    totals = dict.fromkeys(("pending", "running", "succeeded", "failed", "terminating", "unknown"), 0)
    by_task: dict[str, dict[str, int]] = {task.name: {} for task in job.tasks}
    for pod in [*pods, *created]:
        phases = by_task.get(pod.task, {})
        leaving = pod.deleting or pod.uid in gone
        if leaving:
            totals["terminating"] += 1
        else:
            totals[_COUNTED.get(pod.phase, "unknown")] += 1
            phase = pod.phase if pod.phase in _COUNTED else PodPhase.UNKNOWN.value
            phases[phase] = phases.get(phase, 0) + 1
        if leaving and pod.uid not in gone and not pod.marked and pod.version >= job.version:
            phases[LEAVING] = phases.get(LEAVING, 0) + 1
    for task in job.tasks if awaited else ():
        missing = sum(1 for index in range(task.replicas) if pod_name(job, task, index) in awaited)
        if missing:
            by_task[task.name][LEAVING] = by_task[task.name].get(LEAVING, 0) + missing
    tasks = tuple((name, tuple(sorted(phases.items()))) for name, phases in by_task.items() if phases)
    return Counts(**totals, tasks=tasks)


def new_status(
    job: Job, counts: Counts, phase: str, controlled: Mapping[str, str], *, min_available: int, retries: int = 0
) -> Obj:
    """The status without times: everything but `state.lastTransitionTime`, `conditions` and `runningDuration`."""
    status: Obj = {
        "state": {"phase": phase},
        "minAvailable": min_available,
        "taskStatusCount": {name: {"phase": dict(phases)} for name, phases in counts.tasks},
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "terminating": counts.terminating,
        "unknown": counts.unknown,
        "version": job.version,
        "retryCount": job.retry_count + retries,
        "controlledResources": dict(controlled),
    }
    return {key: value for key, value in status.items() if value or key == "state"}


def differs(job: Job, status: Obj) -> bool:
    """Whether `status` (as `new_status` makes it) says anything that is not written yet."""
    old = {key: value for key, value in (job.obj.get("status") or {}).items() if value}
    old["state"] = {"phase": (old.get("state") or {}).get("phase", "")}
    old.pop("conditions", None)
    old.pop("runningDuration", None)
    return old != status


def stamped(job: Job, status: Obj, now: datetime, *, moved: bool, killed: bool) -> Obj:
    """`status` ready to be written.

    `moved` stamps the time and the condition of the phase; `killed` notes how long the job has been there.
    """
    phase = status["state"]["phase"]
    old = job.obj.get("status") or {}
    conditions = list(old.get("conditions") or [])
    moment = "" if moved else (old.get("state") or {}).get("lastTransitionTime")
    moment = moment or timestamp(now)
    if moved:
        conditions = [condition for condition in conditions if condition.get("status") != phase]
        conditions.append({"status": phase, "lastTransitionTime": moment})
    result = {**status, "state": {"phase": phase, "lastTransitionTime": moment}, "conditions": conditions}
    if killed:
        created = parse_timestamp(job.obj["metadata"]["creationTimestamp"])
        result["runningDuration"] = format_duration((parse_timestamp(moment) - created).total_seconds())
    return result
