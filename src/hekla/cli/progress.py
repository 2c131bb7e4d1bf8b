"""What a person sees of a job: the state of its tasks, derived from the Job, its PodGroup and its pods.

Pure: objects in, rows out. The displays in `display.py` show it; `run` and `job view` feed it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from hekla.api.batch import FINISHED_JOB_PHASES, SCHEDULER_NAME, TASK_SPEC, JobPhase
from hekla.api.core import PodPhase
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, is_deleting, is_owned_by, name_of, parse_timestamp
from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION, Reason
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.cli.output import duration

# Container reasons that mean "this will not start by waiting".
_STUCK = frozenset(
    {
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun",
        "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskRow:
    name: str
    wanted: int
    pending: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    restarts: int = 0


def phase_of(job: Obj) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def retries_of(job: Obj) -> str:
    """How often the job was started anew, of how often it may be; empty as long as it was not."""
    count = int((job.get("status") or {}).get("retryCount") or 0)
    return f"retry {count} of {job['spec'].get('maxRetry', 3)}" if count else ""


def attempts_of(job: Obj) -> str:
    """How many were made by a job that failed because it may make no more: ", after 3 of 3 attempts"; or empty."""
    made, allowed = int((job.get("status") or {}).get("retryCount") or 0), int(job["spec"].get("maxRetry", 3))
    exhausted = phase_of(job) == JobPhase.FAILED and 0 < allowed <= made
    return f", after {made} of {allowed} attempts" if exhausted else ""


def is_finished(job: Obj) -> bool:
    """Whether the job has ended for good; an aborted one waits to be resumed, but nobody is working on it."""
    phase = phase_of(job)
    return phase in FINISHED_JOB_PHASES or phase == JobPhase.ABORTED


def task_rows(job: Obj, pods: Sequence[Obj]) -> list[TaskRow]:
    return [_task_row(task, pods) for task in job["spec"].get("tasks") or ()]


def waited_and_ran(job: Obj, pods: Sequence[Obj], now: datetime) -> tuple[str, str]:
    """From its creation to its first container, and from there to its end, or until now; "-" where nobody knows.

    What a restart took away is not known any more: then it is since the last one that it ran.
    """
    state = (job.get("status") or {}).get("state") or {}
    first = _started_at(job, pods)
    ended = parse_timestamp(state["lastTransitionTime"]) if is_finished(job) and "lastTransitionTime" in state else now
    waited = (first or ended) - parse_timestamp(job["metadata"]["creationTimestamp"])
    return (
        "-" if retries_of(job) else duration(waited.total_seconds()),
        "-" if first is None else duration((ended - first).total_seconds()),
    )


def _started_at(job: Obj, pods: Sequence[Obj]) -> datetime | None:
    """When the first container ran; where the pods are gone, when there were enough of them."""
    times = [text for pod in pods for text in _start_times(pod)]
    conditions = (job.get("status") or {}).get("conditions") or ()
    times = times or [one["lastTransitionTime"] for one in conditions if one.get("status") == JobPhase.RUNNING]
    return min(map(parse_timestamp, times)) if times else None


def waiting_reason(group: Obj | None, pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for a job that does not run: a container's that does not start or keep running, what the
    PodGroup says, or that nobody says anything; or empty."""
    stuck, crashing = stuck_reason(pods), _crash_reason(pods)
    if stuck[0] or crashing[0]:
        return stuck if stuck[0] else crashing
    if _has_started(pods):
        # It has started: what kept it from starting is history.
        return "", ""
    if group is None:
        return "", ""
    said, (code, sentence) = annotations_of(group), _unschedulable(group)
    # The annotations are Hekla's and exact; a group scheduled by somebody else has the condition alone.
    code, sentence = said.get(REASON_ANNOTATION, code), said.get(MESSAGE_ANNOTATION) or sentence
    if not code:
        return _unattended(pods)
    return code, sentence or _told_of_pods(pods)


def told_reason(code: str, sentence: str) -> str:
    """The two as people read them; a sentence may be on its way still."""
    return f"{code}: {sentence}" if sentence else code


def dependency_reason(job: Obj, pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for a job with tasks that wait for others before they get pods; or empty."""
    made = {annotations_of(pod).get(TASK_SPEC) for pod in pods}
    for task in job["spec"].get("tasks") or ():
        wanted = (task.get("dependsOn") or {}).get("name") or ()
        if wanted and task.get("replicas") and task.get("name") not in made:
            return str(Reason.WAITING_FOR_DEPENDENCY), f"task {task['name']} waits for {', '.join(wanted)}"
    return "", ""


def predecessor_reason(job: Obj, pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for a job whose pods' names are still taken by those of an earlier one of its name; or empty.

    `pods` are all of that name, whichever job's.
    """
    mine = [pod for pod in pods if is_owned_by(pod, job)]
    leaving = {name_of(pod) for pod in pods if not is_owned_by(pod, job) and is_deleting(pod)}
    if not leaving or is_finished(job) or _has_started(mine):
        return "", ""
    # Others than these are in nobody's way.
    taken = sorted(leaving & _names_of_pods(job))
    if not taken:
        return "", ""
    named = taken[0] if len(taken) == 1 else f"{taken[0]} and {len(taken) - 1} more"
    sentence = f"pods of an earlier job called {name_of(job)} are still ending: {named}"
    return str(Reason.WAITING_FOR_PREDECESSOR), sentence


def _names_of_pods(job: Obj) -> set[str]:
    """Of all that it is to have."""
    tasks = (job.get("spec") or {}).get("tasks") or ()
    return {
        f"{name_of(job)}-{task['name']}-{index}" for task in tasks for index in range(int(task.get("replicas") or 0))
    }


def queue_reason(job: Obj, queues: Collection[str] | None, pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for a job whose queue is gone, which nobody looks at any more; or empty.

    `queues` are the names of all there are, None when that is not known.
    """
    queue = str(job["spec"].get("queue") or DEFAULT_QUEUE)
    if queues is None or queue in queues or _has_started(pods):
        return "", ""
    remedy = "make it, or name another in a new job"
    if queue == DEFAULT_QUEUE:
        remedy = "`hekla controllers` makes it; does nobody run them?"
    return str(Reason.QUEUE_UNUSABLE), f"queue {queue} does not exist: {remedy}"


def _has_started(pods: Sequence[Obj]) -> bool:
    return any((pod.get("status") or {}).get("phase") not in (None, "", PodPhase.PENDING) for pod in pods)


def _unschedulable(group: Obj) -> tuple[str, str]:
    for condition in reversed((group.get("status") or {}).get("conditions") or []):
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True":
            message = str(condition.get("message") or "")
            if "Releasing" in message and not any(word in message for word in ("Pending", "Pipelined", "Allocated")):
                # Pods of the run before were leaving then, and none was there that waited.
                break
            return str(condition.get("reason") or "Unschedulable"), message
        if condition.get("type") == "Scheduled" and condition.get("status") == "True":
            break
    return "", ""


def stuck_reason(pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for a container that will not start by waiting; or empty."""
    for pod in pods:
        for status in _container_statuses(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
            # One that is only on its way has nothing to say.
            if reason in _STUCK or (reason == "ContainerCreating" and message):
                return reason, f"{pod['metadata']['name']}: {message or reason}"
    return "", ""


def unstartable_reason(pod: Obj) -> tuple[str, str]:
    """(code, sentence) for a pod that lives on a container whose command cannot be started, however often; or empty."""
    for status in _container_statuses(pod):
        for ended in ((status.get(state) or {}).get("terminated") or {} for state in ("state", "lastState")):
            if ended.get("reason") == "StartError" and not (status.get("state") or {}).get("running"):
                return "StartError", f"{pod['metadata']['name']}: {ended.get('message') or 'StartError'}"
    return "", ""


def _crash_reason(pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for a container that ends again and again; or empty."""
    for pod in pods:
        for status in _container_statuses(pod):
            code = str(((status.get("state") or {}).get("waiting") or {}).get("reason") or "")
            if code == "CrashLoopBackOff":
                ended = (status.get("lastState") or {}).get("terminated") or {}
                times = f"started again {status.get('restartCount', 0)}\N{MULTIPLICATION SIGN}"
                said = f" ({ended['message'].strip()})" if ended.get("message") else ""
                return code, f"{pod['metadata']['name']}: exit code {ended.get('exitCode', '?')}{said}, {times}"
    return "", ""


def _told_of_pods(pods: Sequence[Obj]) -> str:
    """What a scheduler says of the first pod it did not place."""
    for pod in pods:
        condition = _scheduled(pod)
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    return ""


def _unattended(pods: Sequence[Obj]) -> tuple[str, str]:
    """(code, sentence) for pods that ask for somebody else's scheduler and were not looked at; or empty."""
    for pod in pods:
        wanted = str(pod["spec"].get("schedulerName") or "")
        if wanted not in ("", SCHEDULER_NAME) and not pod["spec"].get("nodeName") and not _scheduled(pod):
            hint = f"Hekla's is called {SCHEDULER_NAME!r}"
            return str(Reason.WAITING_FOR_SCHEDULER), f"no scheduler called {wanted!r} has looked at its pods; {hint}"
    return "", ""


def _scheduled(pod: Obj) -> Obj:
    conditions: list[Obj] = (pod.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == "PodScheduled"), {})


def failures(pods: Sequence[Obj], attempts: str = "") -> list[str]:
    """One line for each container that ended badly, with what it said; one for a pod that somebody else failed.

    `attempts` as of `attempts_of`.
    """
    lines = []
    for pod in pods:
        told = pod.get("status") or {}
        if told.get("phase") == PodPhase.FAILED and told.get("reason"):
            # Evicted, say: that its containers were killed then explains nothing.
            said = str(told.get("message") or "").strip()
            lines.append(f"{pod['metadata']['name']}: {told['reason']}" + (f": {said}" if said else ""))
            continue
        for status in _container_statuses(pod):
            ended = (status.get("state") or {}).get("terminated") or {}
            if ended and ended.get("exitCode"):
                said = str(ended.get("message") or "").strip()
                reason, code = str(ended.get("reason") or ""), int(ended["exitCode"])
                lines.append(failure_line(name_of(pod), reason, code, said, attempts))
    return lines


def failure_line(pod: str, reason: str, code: int, said: str, attempts: str = "") -> str:
    """Of a container that ended badly; `attempts` as of `attempts_of`."""
    return f"{pod}: {reason or 'Error'}, exit code {code}{attempts}" + (f": {said}" if said else "")


def _task_row(task: Obj, pods: Sequence[Obj]) -> TaskRow:
    counts = dict.fromkeys(("pending", "running", "done", "failed", "restarts"), 0)
    for pod in pods:
        if annotations_of(pod).get(TASK_SPEC) != task.get("name"):
            continue
        status = pod.get("status") or {}
        counts["restarts"] += sum(int(c.get("restartCount") or 0) for c in _container_statuses(pod))
        match status.get("phase"):
            case PodPhase.SUCCEEDED:
                counts["done"] += 1
            case PodPhase.FAILED:
                counts["failed"] += 1
            case PodPhase.RUNNING:
                counts["running"] += 1
            case _:
                counts["pending"] += 1
    return TaskRow(str(task.get("name", "")), int(task.get("replicas") or 0), **counts)


def _container_statuses(pod: Obj) -> list[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def has_begun(pod: Obj) -> bool:
    """Whether a container of the pod runs or has run."""
    states = [status.get("state") or {} for status in _container_statuses(pod)]
    return any(state.get(name) is not None for state in states for name in ("running", "terminated"))


def _start_times(pod: Obj) -> list[str]:
    states = [status.get("state") or {} for status in _container_statuses(pod)]
    return [
        detail["startedAt"]
        for state in states
        for detail in (state.get("running"), state.get("terminated"))
        if detail and detail.get("startedAt")
    ]
