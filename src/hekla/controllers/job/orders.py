"""What to do with a Job now: the Command somebody issued, or the policy's answer to a job event that is due.

Answers with a timeout wait here. When they are due is told from the objects where these carry the moment (a pod's
creation, a container's end), so that waiting goes on across a restart of the controller; only the delayed answer to an
eviction lives in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hekla.api.batch import JobAction, JobEvent
from hekla.api.core import PodPhase
from hekla.controllers.job.events import occurrences
from hekla.controllers.job.lifecycle import KILL_PHASES, TARGET_ACTIONS, Operation, operation
from hekla.controllers.job.model import Job, Pod
from hekla.controllers.job.policy import Answer, Occurrence, answer


@dataclass(frozen=True, slots=True)
class Order:
    """An action, and the occurrence it answers (None for a Command or plain converging).

    One that was `announced` when its delay began is not announced again when it is over.
    """

    action: str
    occurrence: Occurrence | None = None
    announced: bool = False


CONVERGE = Order(JobAction.SYNC_JOB)
_Mark = tuple[str, str, str, str]


@dataclass(slots=True)
class Waiting:
    """What has been seen of one Job and not been answered yet."""

    seen: dict[_Mark, datetime] = field(default_factory=dict)
    evictions: dict[str, tuple[Occurrence, Answer]] = field(default_factory=dict)
    announced: set[_Mark] = field(default_factory=set)
    answered: set[_Mark] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Decision:
    """The order; seconds until the next delayed one is due; and the delayed ones nobody has been told of."""

    order: Order
    next_due: float | None = None
    announce: tuple[Answer, ...] = ()


def decide(job: Job, pods: list[Pod], group_phase: str, waiting: Waiting, now: datetime) -> Decision:
    """The first answer that is due and changes anything, else converging."""
    if job.phase in KILL_PHASES:
        return Decision(CONVERGE)
    found = [(one, answer(job, one)) for one in occurrences(job, pods, group_phase)]
    found += _remembered_evictions(pods, found, waiting)
    effective = [(one, reply) for one, reply in found if operation(job.phase, reply.action) is not Operation.SYNC]
    _forget_others(waiting, effective)
    next_due: float | None = None
    announce: list[Answer] = []
    for one, reply in effective:
        remaining = _remaining(one, reply, waiting, now)
        if remaining <= 0 and _mark(one) in waiting.answered:
            continue
        if remaining <= 0:
            if one.event == JobEvent.UNKNOWN and reply.action in TARGET_ACTIONS:
                # The group stays Unknown after a target kill; once is enough for each time it becomes so.
                waiting.answered.add(_mark(one))
            return Decision(Order(reply.action, one, bool(reply.delay)), next_due, tuple(announce))
        if _mark(one) not in waiting.announced:
            waiting.announced.add(_mark(one))
            announce.append(reply)
        next_due = remaining if next_due is None else min(next_due, remaining)
    return Decision(CONVERGE, next_due, tuple(announce))


def _remembered_evictions(
    pods: list[Pod], found: list[tuple[Occurrence, Answer]], waiting: Waiting
) -> list[tuple[Occurrence, Answer]]:
    """Evictions whose answer is delayed: the pod is made again meanwhile, and running again calls the answer off."""
    for one, reply in found:
        if one.event == JobEvent.POD_EVICTED and reply.delay:
            waiting.evictions.setdefault(one.pod, (one, reply))
    for pod in pods:
        if pod.phase == PodPhase.RUNNING and not pod.deleting:
            waiting.evictions.pop(pod.name, None)
    present = {_mark(one) for one, _ in found}
    return [(one, reply) for one, reply in waiting.evictions.values() if _mark(one) not in present]


def _forget_others(waiting: Waiting, effective: list[tuple[Occurrence, Answer]]) -> None:
    marks = {_mark(one) for one, _ in effective}
    waiting.seen = {mark: since for mark, since in waiting.seen.items() if mark in marks}
    waiting.announced &= marks
    waiting.answered &= marks


def _remaining(one: Occurrence, reply: Answer, waiting: Waiting, now: datetime) -> float:
    if not reply.delay:
        return 0.0
    since = one.since or waiting.seen.setdefault(_mark(one), now)
    return (min(since, now) + timedelta(seconds=reply.delay) - now).total_seconds()


def _mark(one: Occurrence) -> _Mark:
    return (one.event, one.task, one.pod, one.pod_uid)
