"""CronJobs: a Job for every time that has come, and no more finished ones than somebody wants to look at.

The name of a Job follows from its time, so that none is made twice. What is decided is written into the status before
anything is deleted, so that a time that was served is never served again.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from hekla.api.kinds import CRON_JOB, JOB, Obj
from hekla.api.meta import (
    Key,
    controller_of,
    is_deleting,
    is_owned_by,
    key_of,
    name_of,
    namespace_of,
    timestamp,
    uid_of,
)
from hekla.api.schedule import InvalidSchedule, Schedule, parse_schedule, zone_named
from hekla.client.informer import Update
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.cronjob.decision import Decision, build_job, decide, next_look, reference_to
from hekla.controllers.runner import Runner
from hekla.controllers.sources import CRON, Sources, owned_in
from hekla.errors import AlreadyExists, ApiError, Conflict, NotFound


class CronJobController:
    def __init__(self, client: Client, sources: Sources, *, clock: Clock, recorder: Recorder) -> None:
        self._client = client
        self._cron_jobs = sources.cron_jobs
        self._jobs = sources.jobs
        self._clock = clock
        self._recorder = recorder
        self.runner = Runner("cronjob", self.reconcile)
        sources.cron_jobs.subscribe(self._changed)
        sources.jobs.subscribe(self._job_changed)

    async def reconcile(self, key: Key) -> float | None:
        cron_job = self._cron_jobs.get(key.name, key.namespace)
        if cron_job is None or is_deleting(cron_job) or not cron_job.get("spec"):
            return None
        # 1. When is it due? One that cannot be read makes no Jobs, but its old ones are still looked after.
        zone, schedule = self._read(cron_job)
        # 2. What has come of its Jobs, and is there one to be made?
        jobs = sorted(self._jobs.by_index(CRON, owned_in(key.namespace, uid_of(cron_job))), key=_age)
        now = self._clock.now()
        decision = decide(cron_job, jobs, lambda name: self._jobs.get(name, key.namespace), schedule or _Never(), now)
        for said in decision.events:
            self._recorder.event(cron_job, *said)
        # 3. What is known is written down before anything goes.
        cron_job = await self._write_status(key, cron_job, decision.status)
        for job in decision.old:
            await self._delete(key, cron_job, job)
        # 4. The new Job, in place of others if it is to be so.
        if decision.create is not None:
            await self._create(key, cron_job, decision, zone)
        return next_look(cron_job, schedule, now) if schedule and not cron_job["spec"].get("suspend") else None

    def _read(self, cron_job: Obj) -> tuple[tzinfo, Schedule | None]:
        spec = cron_job.get("spec") or {}
        text, name = str(spec.get("schedule") or ""), str(spec.get("timeZone") or "")
        if "TZ=" in text.partition(" ")[0]:
            message = (
                f'CRON_TZ or TZ in the schedule "{text}" is not officially supported. If set, the TimeZone field will '
                "be ignored during execution."
            )
            self._recorder.event(cron_job, WARNING, "UnsupportedSchedule", message)
            prefix, _, text = text.partition(" ")
            name = prefix.partition("=")[2]
        zone = zone_named(name)
        if zone is None:
            message = f'Invalid time zone "{name}": unknown time zone {name}'
            self._recorder.event(cron_job, WARNING, "InvalidTimeZone", message)
            return UTC, None
        try:
            return zone, parse_schedule(text.strip(), zone)
        except InvalidSchedule:
            message = f"unparseable schedule for cronjob: {spec.get('schedule')}"
            self._recorder.event(cron_job, WARNING, "UnParseableCronJobSchedule", message)
            return UTC, None

    async def _create(self, key: Key, cron_job: Obj, decision: Decision, zone: tzinfo) -> None:
        due = decision.create
        assert due is not None
        for job in decision.replace:
            await self._delete(key, cron_job, job)
        made = await self._make(cron_job, build_job(cron_job, due, zone))
        if made is None:
            return
        self.runner.wrote(key, self._jobs, made)
        gone = {uid_of(job) for job in decision.replace}
        active = [one for one in decision.status.get("active") or () if one.get("uid") not in gone]
        status = {**decision.status, "active": [*active, reference_to(made)], "lastScheduleTime": timestamp(due)}
        await self._write_status(key, cron_job, status)

    async def _make(self, cron_job: Obj, job: Obj) -> Obj | None:
        """The Job; None when its name is another's or its namespace goes, which no trying again will change."""
        name, namespace = name_of(job), namespace_of(job)
        try:
            made = await self._client.create(JOB, job)
        except AlreadyExists:
            found = await self._client.find(JOB, name, namespace)
            if found is None:
                raise Conflict(f"job {name} has just gone") from None
            if is_owned_by(found, cron_job):
                return found
            owner = (controller_of(found) or {}).get("name") or "none"
            message = f"Job {name} exists but is not owned by this CronJob (current owner: {owner})"
            self._recorder.event(cron_job, WARNING, "ForeignJob", message)
            return None
        except ApiError as error:
            if error.namespace_goes:
                message = f"Namespace {namespace} is terminating, skipping job creation"
                self._recorder.event(cron_job, WARNING, "NamespaceTerminating", message)
                return None
            self._recorder.event(cron_job, WARNING, "FailedCreate", f"Failed to create job: {error}")
            raise
        message = f"Created job {name} for CronJob {namespace}/{name_of(cron_job)}"
        self._recorder.event(cron_job, NORMAL, "SuccessfulCreate", message)
        return made

    async def _delete(self, key: Key, cron_job: Obj, job: Obj) -> None:
        if is_deleting(job):
            return
        try:
            await self._client.delete(JOB, name_of(job), key.namespace, uid=uid_of(job), propagation="Background")
        except NotFound:
            return
        except ApiError as error:
            self._recorder.event(cron_job, WARNING, "FailedDelete", f'Error deleting job "{name_of(job)}": {error}')
            raise
        self._recorder.event(cron_job, NORMAL, "SuccessfulDelete", f'Deleted job "{name_of(job)}"')
        self.runner.deleted(key, self._jobs, key_of(job), uid_of(job))

    async def _write_status(self, key: Key, cron_job: Obj, status: Obj) -> Obj:
        wanted = {name: value for name, value in status.items() if value}
        if wanted == {name: value for name, value in (cron_job.get("status") or {}).items() if value}:
            return cron_job
        written = await self._client.update_status(CRON_JOB, {**cron_job, "status": wanted})
        self.runner.wrote(key, self._cron_jobs, written)
        return written

    def _changed(self, update: Update) -> None:
        if update.old is not None and update.new is not None and _times(update.old) != _times(update.new):
            # parity: a new schedule begins with its next time, and does not make up for what it has missed.
            _, schedule = self._read(update.new)
            wait = next_look(update.new, schedule, self._clock.now()) if schedule else None
            if wait is not None:
                self.runner.enqueue_after(key_of(update.new), wait)
            return
        self.runner.enqueue(key_of(update.obj))

    def _job_changed(self, update: Update) -> None:
        owner = controller_of(update.obj)
        if owner is not None and CRON_JOB.owns_reference(owner):
            self.runner.enqueue(Key(namespace_of(update.obj), owner["name"]))


class _Never:
    """The schedule of a CronJob that has none."""

    def after(self, moment: datetime) -> datetime | None:
        return None

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        return None


def _age(job: Obj) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], name_of(job)


def _times(cron_job: Obj) -> tuple[object, object]:
    # Where nobody checks what is created there may be nothing in it.
    spec = cron_job.get("spec") or {}
    return spec.get("schedule"), spec.get("timeZone")
