"""Which job action answers a job event: the first policy that matches, the task's own before the job's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from hekla.api.batch import JobAction, JobEvent
from hekla.controllers.job.model import Job, Policy

_INTERNAL = frozenset({JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A job event that happened: to a pod, a task or the whole job (`pod` and `task` empty)."""

    event: str
    version: int
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: int | None = None
    exit_code: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The action for an occurrence; `delay` in seconds, and as Go writes it."""

    action: str
    delay: float = 0.0
    delay_text: str = ""


CONVERGE = Answer(JobAction.SYNC_JOB)


def answer(job: Job, occurrence: Occurrence) -> Answer:
    """What the policies of `job` say to `occurrence`; converging when they say nothing."""
    if occurrence.event in _INTERNAL or occurrence.version < job.version:
        return CONVERGE
    task = job.task(occurrence.task) if occurrence.task else None
    return _first(task.policies if task else (), occurrence) or _first(job.policies, occurrence) or CONVERGE


def answers_waiting_pods(job: Job) -> bool:
    """Whether any policy can have an answer to a pod that is still Pending: without a timeout none has."""
    return any(
        policy.timeout for policies in (job.policies, *(task.policies for task in job.tasks)) for policy in policies
    )


def _first(policies: Iterable[Policy], occurrence: Occurrence) -> Answer | None:
    for policy in policies:
        if _matches(policy, occurrence):
            return Answer(policy.action, policy.timeout, policy.timeout_text)
    return None


def _matches(policy: Policy, occurrence: Occurrence) -> bool:
    if policy.exit_code and policy.exit_code == occurrence.exit_code:
        return True
    if not occurrence.event or (occurrence.event == JobEvent.POD_PENDING and not policy.timeout):
        return False
    return occurrence.event in policy.events or JobEvent.ANY in policy.events
