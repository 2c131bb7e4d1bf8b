"""Which job events have happened, told from what is written down: the pods, and the Job's own status.

Nothing here depends on having watched: a controller that was away sees the same events as one that was not, and one
that has already answered an event does not see it again (docs/decisions/0002). A pod's event counts while the pod is
of the Job's current version and not marked as killed by us; an eviction is a pod that the status counted and that is
no longer there, or one whose replacement says so and has not run yet.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hekla.api.batch import JobEvent
from hekla.api.core import PodPhase
from hekla.api.kinds import Obj
from hekla.api.scheduling import PodGroupPhase
from hekla.controllers.job.model import Job, Pod, Task
from hekla.controllers.job.pods import is_left_over, pod_name
from hekla.controllers.job.policy import Occurrence, answers_waiting_pods


def occurrences(job: Job, pods: list[Pod], group_phase: str, lost_since: datetime | None = None) -> list[Occurrence]:
    """Every job event that still wants an answer, the one to answer first in front.

    `lost_since` is the moment noted on a group that lost pods.
    """
    is_lost = group_phase == PodGroupPhase.UNKNOWN
    lost = [Occurrence(JobEvent.UNKNOWN, job.version, since=lost_since)] if is_lost else []
    if not pods and not _counted(job):
        # To pods that are not there, and were not, nothing has happened.
        return lost
    current = [pod for pod in pods if pod.version >= job.version and not pod.marked]
    found = sorted(
        (_of_pod(job, pod, JobEvent.POD_FAILED) for pod in current if pod.phase == PodPhase.FAILED),
        key=lambda one: (_epoch(one.since), one.task, one.pod),
    )
    for task in job.tasks:
        found += _evictions(job, task, pods)
    found += [_of_pod(job, pod, JobEvent.POD_EVICTED) for pod in current if pod.evicted and _has_not_run(pod)]
    for task in job.tasks:
        found += _task_failed(job, task, current)
        found += _task_completed(job, task, pods, current)
    found += lost
    if answers_waiting_pods(job):
        found += [_of_pod(job, pod, JobEvent.POD_PENDING) for pod in current if _has_not_run(pod)]
    return found


def _of_pod(job: Job, pod: Pod, event: JobEvent) -> Occurrence:
    task = job.task(pod.task)
    return Occurrence(
        event=event,
        version=pod.version,
        task=pod.task,
        pod=pod.name,
        pod_uid=pod.uid,
        partition=task.partition_of(pod.index) if task and task.partition_size is not None else None,
        exit_code=pod.exit_code if event is JobEvent.POD_FAILED else 0,
        since=_since(pod, event),
    )


def _since(pod: Pod, event: JobEvent) -> datetime | None:
    """When it happened, as far as the pod tells: not since when a task is failing whose pods go on."""
    moments = {JobEvent.POD_PENDING: pod.created, JobEvent.POD_EVICTED: pod.evicted, JobEvent.TASK_FAILED: None}
    return moments.get(event, pod.finished) or pod.waiting_since


def _has_not_run(pod: Pod) -> bool:
    return pod.phase == PodPhase.PENDING and not pod.deleting


def _counted(job: Job) -> Obj:
    """The pods that the last status told of, by task and phase."""
    return (job.obj.get("status") or {}).get("taskStatusCount") or {}


def _evictions(job: Job, task: Task, pods: list[Pod]) -> list[Occurrence]:
    """Pods that the status counted and that are gone, though nobody here deleted them."""
    known = min(sum((_counted(job).get(task.name) or {}).get("phase", {}).values()), task.replicas)
    mine = [pod for pod in pods if pod.task == task.name and pod.index < task.replicas]
    # What we are killing ourselves is not counted any more, though its name is still taken.
    present = sum(1 for pod in mine if not pod.marked and not is_left_over(job, pod))
    if known <= present:
        return []
    taken = {pod.index for pod in mine}
    missing = [index for index in range(task.replicas) if index not in taken]
    return [
        Occurrence(
            event=JobEvent.POD_EVICTED,
            version=job.version,
            task=task.name,
            pod=pod_name(job, task, index),
            partition=task.partition_of(index) if task.partition_size is not None else None,
        )
        for index in missing[: known - present]
    ]


def _task_failed(job: Job, task: Task, current: list[Pod]) -> list[Occurrence]:
    if task.max_retry < 0:
        return []
    alive = [pod for pod in current if pod.task == task.name and pod.phase in (PodPhase.RUNNING, PodPhase.PENDING)]
    if not alive or sum(pod.restarts for pod in alive) < task.max_retry:
        return []
    worst = _of_pod(job, max(alive, key=lambda pod: (pod.restarts, -pod.index)), JobEvent.TASK_FAILED)
    # Another of its pods may have been the worst when the waiting began.
    noted = [pod.waiting_since for pod in alive if pod.waiting_since]
    return [replace(worst, since=min(noted, default=None))]


def _task_completed(job: Job, task: Task, pods: list[Pod], current: list[Pod]) -> list[Occurrence]:
    succeeded = [pod for pod in pods if pod.task == task.name and pod.phase == PodPhase.SUCCEEDED]
    last = [pod for pod in current if pod.task == task.name and pod.phase == PodPhase.SUCCEEDED]
    if not task.replicas or len(succeeded) < task.replicas or not last:
        return []
    return [_of_pod(job, max(last, key=lambda pod: (_epoch(pod.finished), pod.index)), JobEvent.TASK_COMPLETED)]


def _epoch(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0
