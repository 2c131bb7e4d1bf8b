"""The state machine of a Job: which operation a job action means in a phase, and which phase comes next.

Pure: `operation` and `next_phase` are functions of values. What they mean for pods is in `pods.py`, who writes it is
`controller.py`.

A phase that kills (`KILL_PHASES`) does so by being the phase: whatever is still running in it is deleted, each time
somebody looks. So a decision is safe as soon as its status is written, even if nothing was deleted yet.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from hekla.api.batch import FINISHED_JOB_PHASES, JobAction, JobPhase
from hekla.controllers.job.model import Job


class Operation(Enum):
    SYNC = "converge: make the pods that should be there"
    KILL_ALL = "kill every pod, of the last attempt only the unfinished ones"
    KILL_UNFINISHED = "kill every pod that has not finished"
    KILL_TARGET = "kill the pods the event is about"


TARGET_ACTIONS = frozenset({JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION})

# From Pending and Running; every other action converges.
_FROM_ALIVE: dict[str, tuple[Operation, JobPhase]] = {
    JobAction.RESTART_JOB: (Operation.KILL_ALL, JobPhase.RESTARTING),
    JobAction.RESTART_TASK: (Operation.KILL_TARGET, JobPhase.RESTARTING),
    JobAction.RESTART_POD: (Operation.KILL_TARGET, JobPhase.RESTARTING),
    JobAction.RESTART_PARTITION: (Operation.KILL_TARGET, JobPhase.RESTARTING),
    JobAction.ABORT_JOB: (Operation.KILL_UNFINISHED, JobPhase.ABORTING),
    JobAction.COMPLETE_JOB: (Operation.KILL_UNFINISHED, JobPhase.COMPLETING),
    JobAction.TERMINATE_JOB: (Operation.KILL_UNFINISHED, JobPhase.TERMINATING),
}
_ENDS: dict[str, JobPhase] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}
# In these phases no pod may be left running; nothing but a resume leads out of the last ones.
KILL_PHASES = frozenset({*_ENDS, JobPhase.ABORTED, *FINISHED_JOB_PHASES})


class Counts(msgspec.Struct, frozen=True):
    """Pods by phase after the operation; `tasks` has each task's counts by pod phase."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    tasks: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()

    def succeeded_of(self, task: str) -> int | None:
        """Succeeded pods of a task; None for a task without counted pods."""
        for name, phases in self.tasks:
            if name == task:
                return dict(phases).get("Succeeded", 0)
        return None


class Transition(msgspec.Struct, frozen=True):
    phase: str
    retries: int = 0


def operation(phase: str, action: str) -> Operation:
    """What an action does in a phase. An action nobody knows converges where converging is possible."""
    if phase in KILL_PHASES:
        return Operation.KILL_UNFINISHED
    if phase == JobPhase.RESTARTING:
        if action == JobAction.SYNC_JOB:
            return Operation.SYNC
        # parity: any whole-job action kills again here and the request itself is forgotten.
        return Operation.KILL_TARGET if action in TARGET_ACTIONS else Operation.KILL_ALL
    return _FROM_ALIVE[action][0] if action in _FROM_ALIVE else Operation.SYNC


def next_phase(job: Job, action: str, counts: Counts, *, min_available: int | None = None) -> Transition:
    """The phase after the operation for `action` left `counts`.

    `min_available` is the gang that the status tells of (`status.minAvailable`), which a restart is measured against.
    """
    phase = job.phase
    if phase in FINISHED_JOB_PHASES:
        return Transition(phase)
    if phase in (JobPhase.ABORTING, JobPhase.ABORTED) and action == JobAction.RESUME_JOB:
        return Transition(JobPhase.RESTARTING, retries=1)
    if phase in _ENDS:
        quiet = counts.terminating == counts.pending == counts.running == 0
        return Transition(_ENDS[phase] if quiet else phase)
    if phase == JobPhase.ABORTED:
        return Transition(phase)
    if phase == JobPhase.RESTARTING:
        return Transition(_after_restart(job, counts, job.min_available if min_available is None else min_available))
    if action in _FROM_ALIVE:
        target = _FROM_ALIVE[action][1]
        return Transition(target, retries=1 if target is JobPhase.RESTARTING else 0)
    if phase == JobPhase.RUNNING:
        return Transition(_while_running(job, counts))
    ready = job.min_available <= counts.running + counts.succeeded + counts.failed
    return Transition(JobPhase.RUNNING if ready else JobPhase.PENDING)


def _after_restart(job: Job, counts: Counts, min_available: int) -> str:
    if job.retry_count >= job.max_retry:
        return JobPhase.FAILED
    return JobPhase.PENDING if is_restarted(job, counts, min_available) else JobPhase.RESTARTING


def is_restarted(job: Job, counts: Counts, min_available: int) -> bool:
    """Whether enough of the old pods are gone, for the gang that was told of, or the smaller one it has become."""
    return job.replicas - counts.terminating >= min(min_available, job.min_available)


def _while_running(job: Job, counts: Counts) -> str:
    replicas = job.replicas
    if replicas == 0:
        return JobPhase.RUNNING
    if job.min_success is not None and counts.succeeded >= job.min_success:
        return JobPhase.COMPLETED
    if counts.succeeded + counts.failed == replicas:
        return _outcome(job, counts)
    if counts.pending > replicas - job.min_available:
        return JobPhase.PENDING
    return JobPhase.RUNNING


def _outcome(job: Job, counts: Counts) -> str:
    """Every pod has finished: was it enough?"""
    if job.min_available >= sum(task.effective_min_available for task in job.tasks):
        for task in job.tasks:
            succeeded = counts.succeeded_of(task.name)
            if task.min_available is not None and succeeded is not None and succeeded < task.min_available:
                return JobPhase.FAILED
    if job.min_success is not None and counts.succeeded < job.min_success:
        return JobPhase.FAILED
    return JobPhase.COMPLETED if counts.succeeded >= job.min_available else JobPhase.FAILED
