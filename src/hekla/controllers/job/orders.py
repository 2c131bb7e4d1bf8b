"""What to do with a Job now: the Command somebody issued, or the policy's answer to a job event that is due.

Answers with a timeout wait here. When they are due is told from the objects: a pod's creation, a container's end, the
eviction of the pod it replaces. Where these do not carry the moment it is written on them, so that waiting goes on
across a restart of the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from hekla.api.batch import JobAction, JobEvent
from hekla.controllers.job.events import occurrences
from hekla.controllers.job.lifecycle import KILL_PHASES, Operation, operation
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
    remember it, until it runs. `unwritten` has what else waits since a moment that no object tells.
    """

    order: Order
    next_due: float | None = None
    announce: tuple[Answer, ...] = ()
    evicted: Mapping[str, datetime] = msgspec.field(default_factory=dict)
    unwritten: tuple[tuple[Occurrence, datetime], ...] = ()


def decide(
    job: Job,
    pods: list[Pod],
    group_phase: str,
    waiting: Waiting,
    now: datetime,
    *,
    lost_since: datetime | None = None,
) -> Decision:
    """The first answer that is due and changes anything, else one that asks for no more than converging does."""
    if job.phase in KILL_PHASES:
        return Decision(CONVERGE)
    found = [(one, answer(job, one)) for one in occurrences(job, pods, group_phase, lost_since)]
    answers = [(one, reply) for one, reply in found if reply.action != JobAction.SYNC_JOB]
    _forget_others(waiting, answers)
    next_due: float | None = None
    announce: list[Answer] = []
    evicted: dict[str, datetime] = {}
    unwritten: list[tuple[Occurrence, datetime]] = []
    idle: list[tuple[_Mark, Order]] = []
    for one, reply in answers:
        remaining, mark = _remaining(one, reply, waiting, now), _mark(one)
        order = Order(reply.action, one, bool(reply.delay))
        if reply.delay and mark not in waiting.announced:
            # One that is due by the time it is first seen was delayed all the same.
            waiting.announced.add(mark)
            announce.append(reply)
        if remaining <= 0 and mark in waiting.answered:
            continue
        if remaining <= 0 and not converges(job, order):
            return Decision(order, next_due, tuple(announce))
        if remaining <= 0:
            idle.append((mark, order))
            continue
        if one.event == JobEvent.POD_EVICTED and not converges(job, order):
            evicted[one.pod] = one.since or waiting.seen[mark]
        elif one.since is None and not converges(job, order):
            unwritten.append((one, waiting.seen[mark]))
        next_due = remaining if next_due is None else min(next_due, remaining)
    if not idle:
        return Decision(CONVERGE, next_due, tuple(announce), evicted, tuple(unwritten))
    # Each is told once, and many of the same at once.
    _, first = idle[0]
    told = {mark for mark, order in idle if order.action == first.action}
    waiting.answered |= told
    due = 0.0 if len(told) < len(idle) else next_due
    return Decision(first, due, tuple(announce), evicted, tuple(unwritten))


def converges(job: Job, order: Order) -> bool:
    """Whether an order asks for no more than converging does, like a resume of what runs."""
    what = operation(job.phase, order.action)
    if what is Operation.KILL_TARGET and order.action == JobAction.RESTART_PARTITION:
        # parity: what happened in no partition restarts none, and a Command names none.
        return order.occurrence is None or order.occurrence.partition is None
    return what is Operation.SYNC


def _forget_others(waiting: Waiting, answers: list[tuple[Occurrence, Answer]]) -> None:
    if not waiting.holds:
        return
    marks = {_mark(one) for one, _ in answers}
    waiting.seen = {mark: since for mark, since in waiting.seen.items() if mark in marks}
    waiting.announced &= marks
    waiting.answered &= marks


def _remaining(one: Occurrence, reply: Answer, waiting: Waiting, now: datetime) -> float:
    if not reply.delay:
        return 0.0
    # What was seen is exact; what is written about it is so to the second.
    since = waiting.seen.get(_mark(one)) or one.since or waiting.seen.setdefault(_mark(one), now)
    return (min(since, now) + timedelta(seconds=reply.delay) - now).total_seconds()


def _mark(one: Occurrence) -> _Mark:
    if one.event == JobEvent.TASK_FAILED:
        # The task fails on, whichever of its pods has restarted most by now.
        return (one.event, one.task, "", "")
    # An eviction is the same one before and after its pod is replaced.
    uid = "" if one.event == JobEvent.POD_EVICTED else one.pod_uid
    return (one.event, one.task, one.pod, uid)
