"""What a CronJob's time and its Jobs ask for: a function of values, carried out by `controller.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from hekla.api.batch import FINISHED_JOB_PHASES, JobPhase
from hekla.api.kinds import CRON_JOB, JOB, Obj
from hekla.api.meta import (
    annotations_of,
    copy_of,
    name_of,
    namespace_of,
    owner_reference,
    parse_timestamp,
    timestamp,
    uid_of,
)
from hekla.api.schedule import Schedule
from hekla.api.stored import job_spec_as_stored
from hekla.client.recorder import NORMAL, WARNING

SCHEDULED_AT = "volcano.sh/cronjob-scheduled-timestamp"
_MANY = 100
# Clocks differ a little: looked at just after its time, not just before.
_LATER = timedelta(milliseconds=100)

Said = tuple[str, str, str]
"""Type, reason and message of an Event."""
Find = Callable[[str], Obj | None]
"""The Job of a name in the CronJob's namespace."""


@dataclass(slots=True)
class Decision:
    """What to do now. `create` is the time to make a Job for; `replace` are the active ones that go before that."""

    status: Obj
    events: list[Said] = field(default_factory=list)
    old: list[Obj] = field(default_factory=list)
    replace: list[Obj] = field(default_factory=list)
    create: datetime | None = None


def decide(cron_job: Obj, jobs: list[Obj], find: Find, schedule: Schedule, now: datetime) -> Decision:
    """`jobs` are those that the CronJob made, oldest first."""
    decision = Decision(copy_of(cron_job.get("status") or {}))
    due = _due(cron_job, schedule, now, decision)
    _take_in_finished(cron_job, jobs, decision)
    _take_in_active(jobs, find, decision)
    if due is not None and _moment(decision.status.get("lastScheduleTime")) != due:
        if job_name(cron_job, due) in {name_of(job) for job in jobs}:
            # Made by a controller that died before it could say so.
            decision.status["lastScheduleTime"] = timestamp(due)
        else:
            _start(cron_job, jobs, due, decision)
    return decision


def next_look(cron_job: Obj, schedule: Schedule, now: datetime) -> float | None:
    """Seconds until the next time comes; None when none does."""
    since = _since(cron_job)
    following = schedule.after(schedule.latest(since, now) or since)
    return None if following is None else max(0.0, (following + _LATER - now).total_seconds())


def job_name(cron_job: Obj, due: datetime) -> str:
    return f"{name_of(cron_job)}-{int(due.timestamp()) // 60}"


def build_job(cron_job: Obj, due: datetime, zone: tzinfo) -> Obj:
    template = cron_job["spec"].get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    moment = timestamp(due) if zone is UTC else due.astimezone(zone).isoformat(timespec="seconds")
    metadata: Obj = {
        "name": job_name(cron_job, due),
        "namespace": namespace_of(cron_job),
        "annotations": {**(meta.get("annotations") or {}), SCHEDULED_AT: moment},
        "ownerReferences": [owner_reference(cron_job, CRON_JOB)],
    }
    if meta.get("labels"):
        metadata["labels"] = dict(meta["labels"])
    spec = job_spec_as_stored(template.get("spec") or {})
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec}


def _due(cron_job: Obj, schedule: Schedule, now: datetime, decision: Decision) -> datetime | None:
    """The time that has come last; an older one that was missed is not made up for."""
    spec, since = cron_job["spec"], _since(cron_job)
    if spec.get("suspend"):
        return None
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and deadline < (now - since).total_seconds():
        since = now - timedelta(seconds=deadline)
    due = schedule.latest(since, now)
    if due is not None and _missed_many(schedule, since, now):
        message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        decision.events.append((WARNING, "TooManyMissedTimes", message))
    return due


def _missed_many(schedule: Schedule, since: datetime, now: datetime) -> bool:
    moment: datetime | None = since
    for _ in range(_MANY + 1):
        moment = schedule.after(moment) if moment is not None else None
        if moment is None or moment > now:
            return False
    return True


def _take_in_finished(cron_job: Obj, jobs: list[Obj], decision: Decision) -> None:
    """What has ended is active no more; of the oldest there may be too many."""
    status = decision.status
    for job in jobs:
        if not _is_finished(job):
            continue
        if _remove(status, uid_of(job)):
            message = f"Saw completed job: {name_of(job)} in active, remove"
            decision.events.append((NORMAL, "SawCompletedJob", message))
        ended = job["status"]["state"].get("lastTransitionTime")
        if _moment(ended) and _phase(job) == JobPhase.COMPLETED:
            known = status.get("lastSuccessfulTime")
            status["lastSuccessfulTime"] = max(ended, known if _moment(known) else ended, key=parse_timestamp)
    # parity: Jobs that were terminated are in neither history.
    for phase, limit in (
        (JobPhase.COMPLETED, "successfulJobsHistoryLimit"),
        (JobPhase.FAILED, "failedJobsHistoryLimit"),
    ):
        ended_so = [job for job in jobs if _phase(job) == phase]
        if cron_job["spec"].get(limit) is not None:
            decision.old += ended_so[: max(0, len(ended_so) - int(cron_job["spec"][limit]))]


def _take_in_active(jobs: list[Obj], find: Find, decision: Decision) -> None:
    """What runs is active, and what is active runs."""
    status = decision.status
    known = {one.get("uid") for one in status.get("active") or ()}
    for job in jobs:
        if _is_finished(job) or uid_of(job) in known:
            continue
        if SCHEDULED_AT in annotations_of(job):
            # Made by a controller that died before it could say so; it may have been away for many times since.
            status["active"] = [*(status.get("active") or ()), reference_to(job)]
            continue
        message = f"Detected orphaned job forgotten or not managed by controller: {name_of(job)} (UID: {uid_of(job)})"
        decision.events.append((WARNING, "OrphanedJob", message))
    mine = {uid_of(job) for job in jobs}
    for one in list(status.get("active") or ()):
        name, uid = str(one.get("name")), str(one.get("uid"))
        found = find(name)
        if uid in mine or (found is not None and uid_of(found) == uid):
            continue
        message = f'Active job "{name}" no longer exists (UID: {uid})'
        if found is not None:
            change = f"(expected: {uid}, actual: {uid_of(found)})"
            message = f'Active job reference "{name}" points to a different UID {change}'
        decision.events.append((WARNING, "StaleReference", message))
        _remove(status, uid)


def _start(cron_job: Obj, jobs: list[Obj], due: datetime, decision: Decision) -> None:
    policy, active = cron_job["spec"].get("concurrencyPolicy"), decision.status.get("active") or []
    if active and policy == "Forbid":
        message = "Skipping job creation because another job is already running"
        decision.events.append((WARNING, "ForbidConcurrent", message))
        return
    if active and policy == "Replace":
        decision.events.append((WARNING, "ReplaceConcurrent", "Replacing active job for CronJob"))
        running = {one.get("uid") for one in active}
        decision.replace = [job for job in jobs if uid_of(job) in running]
    decision.create = due


def _since(cron_job: Obj) -> datetime:
    """Times after this have not been served."""
    served = _moment((cron_job.get("status") or {}).get("lastScheduleTime"))
    return served or parse_timestamp(cron_job["metadata"]["creationTimestamp"])


def _moment(text: str | None) -> datetime | None:
    """A time of a status, into which anybody may have written something else; None for what is none."""
    try:
        found = parse_timestamp(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


def _remove(status: Obj, uid: str) -> bool:
    """Take a Job out of the active ones; whether it was there."""
    active = status.get("active") or []
    status["active"] = [one for one in active if one.get("uid") != uid]
    return len(status["active"]) < len(active)


def reference_to(job: Obj) -> Obj:
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "name": name_of(job),
        "namespace": namespace_of(job),
        "uid": uid_of(job),
        "resourceVersion": job["metadata"]["resourceVersion"],
    }


def _phase(job: Obj) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def _is_finished(job: Obj) -> bool:
    return _phase(job) in FINISHED_JOB_PHASES
