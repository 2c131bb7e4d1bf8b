"""Which changes of a Job or of its PodGroup are worth a look at the Job.

Most are not: they are our own status coming back with other counters in it, or the scheduler's.
"""

from __future__ import annotations

from typing import Any

from hekla.api.batch import JobPhase
from hekla.api.kinds import Obj
from hekla.api.scheduling import PodGroupPhase
from hekla.client.informer import Update
from hekla.controllers.job.podgroup import complaint


def job_moved(update: Update) -> bool:
    """A Job came or went, was changed by its user, or its phase, version or retries are others."""
    return update.old is None or update.new is None or _course_of_job(update.old) != _course_of_job(update.new)


def group_moved(update: Update) -> bool:
    """A PodGroup came or went, or what the Job makes of it is different: that it runs now is told by its pods."""
    return update.old is None or update.new is None or _course_of_group(update.old) != _course_of_group(update.new)


def group_judged(update: Update) -> bool:
    """Whether the scheduler, and not only we, has changed a PodGroup."""
    return _judgement(update.old or {}) != _judgement(update.new or {})


def _course_of_job(job: Obj) -> tuple[Any, ...]:
    meta, status = job["metadata"], job.get("status") or {}
    # Who makes a new Job Pending goes on with it in the same look.
    phase = (status.get("state") or {}).get("phase") or JobPhase.PENDING
    return (
        meta.get("generation"),
        meta.get("deletionTimestamp"),
        meta.get("labels"),
        meta.get("annotations"),
        phase,
        status.get("version"),
        status.get("retryCount"),
    )


def _course_of_group(group: Obj) -> tuple[Any, ...]:
    meta, status = group["metadata"], group.get("status") or {}
    return (
        meta.get("deletionTimestamp"),
        meta.get("ownerReferences"),
        group.get("spec"),
        _standing(status.get("phase") or PodGroupPhase.PENDING),
        complaint(group),
    )


def _standing(phase: str) -> str:
    """Before the gate, beyond it, or one that lost pods."""
    return phase if phase in (PodGroupPhase.PENDING, PodGroupPhase.UNKNOWN) else PodGroupPhase.INQUEUE


def _judgement(group: Obj) -> tuple[Any, ...]:
    status = group.get("status") or {}
    return status.get("phase") or PodGroupPhase.PENDING, status.get("conditions")
