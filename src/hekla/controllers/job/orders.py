"""What to do with a Job now: the Command somebody issued, or the policy's answer to a job event that is due.

Answers with a timeout wait here. When they are due is told from the objects where these carry the moment (a pod's
creation, a container's end, the eviction of the pod it replaces), so that waiting goes on across a restart of the
controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from hekla.api.batch import JobAction, JobEvent
from hekla.controllers.job.events import occurrences
from hekla.controllers.job.lifecycle import KILL_PHASES, TARGET_ACTIONS, Operation, operation
from hekla.controllers.job.model import Job, Pod
from hekla.controllers.job.policy import Answer, Occurrence, answer


class Order(msgspec.Struct, frozen=True):
    """An action, and the occurrence it answers (None for a Command or plain converging).

    One that was `announced` when its delay began is not announced again when it is over.
    """

    action: str
    occurrence: Occurrence | None = None
    announced: bool = False


CONVERGE = Order(JobAction.SYNC_JOB)
_Mark = tuple[str, str, str, str]


class Waiting(msgspec.Struct):
    """What has been seen of one Job and not been answered yet."""

    seen: dict[_Mark, datetime] = msgspec.field(default_factory=dict)
    announced: set[_Mark] = msgspec.field(default_factory=set)
    answered: set[_Mark] = msgspec.field(default_factory=set)

    @property
    def holds(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self.seen or self.announced or self.answered)


class Decision(msgspec.Struct, frozen=True):
    """The order; seconds until the next delayed one is due; and the delayed ones nobody has been told of.

    `evicted` are the pods whose eviction has an answer that waits, with the moment: what is made in their place must
    remember it, until it runs.
    """

    order: Order
    next_due: float | None = None
    announce: tuple[Answer, ...] = ()
    evicted: Mapping[str, datetime] = msgspec.field(default_factory=dict)


def decide(job: Job, pods: list[Pod], group_phase: str, waiting: Waiting, now: datetime) -> Decision:
    """The first answer that is due and changes anything, else converging."""
    if job.phase in KILL_PHASES:
        return Decision(CONVERGE)
    found = [(one, answer(job, one)) for one in occurrences(job, pods, group_phase)]
    effective = [(one, reply) for one, reply in found if _has_effect(job, one, reply)]
    _forget_others(waiting, effective)
    next_due: float | None = None
    announce: list[Answer] = []
    evicted: dict[str, datetime] = {}
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
        if one.event == JobEvent.POD_EVICTED:
            evicted[one.pod] = one.since or waiting.seen[_mark(one)]
        next_due = remaining if next_due is None else min(next_due, remaining)
    return Decision(CONVERGE, next_due, tuple(announce), evicted)


def _has_effect(job: Job, one: Occurrence, reply: Answer) -> bool:
    if reply.action == JobAction.RESTART_PARTITION and one.partition is None:
        # parity: what happened in no partition restarts none.
        return False
    return operation(job.phase, reply.action) is not Operation.SYNC


def _forget_others(waiting: Waiting, effective: list[tuple[Occurrence, Answer]]) -> None:
    if not waiting.holds:
        return
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
    # An eviction is the same one before and after its pod is replaced.
    uid = "" if one.event == JobEvent.POD_EVICTED else one.pod_uid
    return (one.event, one.task, one.pod, uid)
