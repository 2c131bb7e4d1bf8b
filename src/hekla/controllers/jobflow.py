"""JobFlows: each job is made from its template once the jobs it depends on have completed."""

from __future__ import annotations

from datetime import datetime, timedelta

from hekla.api.batch import JobPhase
from hekla.api.duration import parse_duration
from hekla.api.kinds import JOB, JOB_FLOW, JOB_TEMPLATE, Obj
from hekla.api.meta import (
    Key,
    controller_of,
    is_deleting,
    is_owned_by,
    key_of,
    name_of,
    owner_reference,
    parse_timestamp,
    timestamp,
    uid_of,
)
from hekla.api.stored import job_spec_as_stored
from hekla.client.informer import Update
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.runner import Runner
from hekla.controllers.sources import CREATED_BY_TEMPLATE, FLOW, Sources, owned_in
from hekla.errors import AlreadyExists, NotFound

# A file may hold a flow before its templates: only after this long is it told that one has not come.
TEMPLATES_TAKE_SECONDS = 10.0
CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"
_SUCCEED, _RUNNING, _FAILED, _PENDING = "Succeed", "Running", "Failed", "Pending"
_OVER = (_FAILED, "Terminating")
# parity: jobs that are Completing or Terminating are in no list.
_LISTS: dict[str, str] = {
    JobPhase.PENDING: "pendingJobs",
    JobPhase.RUNNING: "runningJobs",
    JobPhase.FAILED: "failedJobs",
    JobPhase.COMPLETED: "completedJobs",
    JobPhase.TERMINATED: "terminatedJobs",
    JobPhase.ABORTING: "unKnowJobs",
    JobPhase.ABORTED: "unKnowJobs",
    JobPhase.RESTARTING: "unKnowJobs",
    "": "unKnowJobs",
}


def due_flows(flow: Obj, phases: dict[str, str]) -> list[str]:
    """The names of flows whose job is missing and may be made; `phases` are those of the jobs that exist."""
    due = []
    for one in _spec(flow).get("flows") or ():
        targets = (one.get("dependsOn") or {}).get("targets") or []
        ready = all(phases.get(job_name(flow, target)) == JobPhase.COMPLETED for target in targets)
        if job_name(flow, one["name"]) not in phases and ready:
            due.append(one["name"])
    return due


def job_name(flow: Obj, name: str) -> str:
    return f"{name_of(flow)}-{name}"


def flow_status(flow: Obj, jobs: list[Obj], now: datetime) -> Obj:
    """The status of a flow with these jobs."""
    status: Obj = {}
    ordered = sorted(jobs, key=lambda job: (job["metadata"]["creationTimestamp"], name_of(job)))
    for job in ordered:
        listed = _LISTS.get(_phase(job))
        if listed:
            status.setdefault(listed, []).append(name_of(job))
    if ordered:
        status["conditions"] = {name_of(job): _condition(job) for job in ordered}
        known = {one["name"]: one for one in (flow.get("status") or {}).get("jobStatusList") or ()}
        status["jobStatusList"] = [_job_status(job, known.get(name_of(job)), now) for job in ordered]
    before = str(((flow.get("status") or {}).get("state") or {}).get("phase") or "")
    status["state"] = {"phase": _flow_phase(before, status, len(_spec(flow).get("flows") or ()))}
    return status


class JobFlowController:
    def __init__(self, client: Client, sources: Sources, *, clock: Clock, recorder: Recorder) -> None:
        self._client = client
        self._flows = sources.flows
        self._jobs = sources.jobs
        self._templates = sources.templates
        self._clock = clock
        self._recorder = recorder
        self.runner = Runner("jobflow", self.reconcile)
        sources.flows.subscribe(lambda update: self.runner.enqueue(key_of(update.obj)))
        sources.jobs.subscribe(self._job_changed)
        sources.templates.subscribe(self._template_changed)

    async def reconcile(self, key: Key) -> float | None:
        flow = self._flows.get(key.name, key.namespace)
        if flow is None or is_deleting(flow):
            return None
        phase = str(((flow.get("status") or {}).get("state") or {}).get("phase") or "")
        jobs = self._jobs.by_index(FLOW, owned_in(key.namespace, uid_of(flow)))
        if phase in _OVER:
            return None
        if phase == _SUCCEED and _spec(flow).get("jobRetainPolicy") == "delete":
            await self._delete(key, jobs)
            return None
        if phase == _SUCCEED and _has_lost_any(flow, jobs):
            # parity: what has become of it stays told when its jobs go one by one.
            return None
        if phase != _SUCCEED:
            made, missing = await self._create_due(key, flow, jobs)
            if missing:
                # parity: a flow whose template is missing gets no status. The template's coming wakes us.
                return self._tell_of_missing(flow, missing)
            jobs = [*jobs, *made]
        status = flow_status(flow, jobs, self._clock.now())
        if status != flow.get("status"):
            written = await self._client.update_status(JOB_FLOW, {**flow, "status": status})
            self.runner.wrote(key, self._flows, written)
        return None

    async def _create_due(self, key: Key, flow: Obj, jobs: list[Obj]) -> tuple[list[Obj], str]:
        """The jobs made, and the template that is missing, if one is: what comes after it waits, too."""
        made: list[Obj] = []
        for name in due_flows(flow, {name_of(job): _phase(job) for job in jobs}):
            template = self._templates.get(name, key.namespace)
            # Our copy may be older than the template.
            template = template or await self._client.find(JOB_TEMPLATE, name, key.namespace)
            if template is None:
                return made, name
            job = _job(flow, name, template)
            try:
                created = await self._client.create(JOB, job)
            except AlreadyExists:
                created = await self._client.get(JOB, name_of(job), key.namespace)
                if not is_owned_by(created, flow):
                    raise
            else:
                self._recorder.event(flow, NORMAL, "Created", f"create a job named {name_of(job)}!")
            self.runner.wrote(key, self._jobs, created)
            made.append(created)
        return made, ""

    def _tell_of_missing(self, flow: Obj, template: str) -> float | None:
        """Tell of a template that is not there, once it has had the time to come; the seconds until then."""
        age = (self._clock.now() - parse_timestamp(flow["metadata"]["creationTimestamp"])).total_seconds()
        if age < TEMPLATES_TAKE_SECONDS:
            return min(TEMPLATES_TAKE_SECONDS - age, TEMPLATES_TAKE_SECONDS)
        message = f'JobTemplate "{template}" is not there: {job_name(flow, template)} waits for it'
        self._recorder.event(flow, WARNING, "TemplateNotFound", message)
        return None

    async def _delete(self, key: Key, jobs: list[Obj]) -> None:
        for job in jobs:
            if is_deleting(job):
                continue
            try:
                await self._client.delete(JOB, name_of(job), key.namespace, uid=uid_of(job), propagation="Background")
            except NotFound:
                continue
            self.runner.deleted(key, self._jobs, key_of(job), uid_of(job))

    def _job_changed(self, update: Update) -> None:
        owner = controller_of(update.obj)
        if owner is not None and JOB_FLOW.owns_reference(owner):
            self.runner.enqueue(Key(key_of(update.obj).namespace, owner["name"]))

    def _template_changed(self, update: Update) -> None:
        """A template that was missing has come."""
        template = key_of(update.obj)
        for flow in self._flows.all():
            names = [one.get("name") for one in _spec(flow).get("flows") or ()]
            if key_of(flow).namespace == template.namespace and template.name in names:
                self.runner.enqueue(key_of(flow))


def _spec(flow: Obj) -> Obj:
    """Nobody has to write one."""
    return flow.get("spec") or {}


def _job(flow: Obj, name: str, template: Obj) -> Obj:
    namespace = flow["metadata"]["namespace"]
    origin = {CREATED_BY_TEMPLATE: f"{namespace}.{name}", CREATED_BY_FLOW: f"{namespace}.{name_of(flow)}"}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": job_name(flow, name),
            "namespace": namespace,
            "labels": dict(origin),
            "annotations": dict(origin),
            "ownerReferences": [owner_reference(flow, JOB_FLOW)],
        },
        "spec": job_spec_as_stored(template.get("spec") or {}),
    }


def _has_lost_any(flow: Obj, jobs: list[Obj]) -> bool:
    """Whether a job is gone that the status tells of."""
    return not (flow["status"].get("conditions") or {}).keys() <= {name_of(job) for job in jobs}


def _phase(job: Obj) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def _condition(job: Obj) -> Obj:
    status = job.get("status") or {}
    condition = {
        "phase": _phase(job),
        "createTime": job["metadata"]["creationTimestamp"],
        "runningDuration": status.get("runningDuration"),
        "taskStatusCount": status.get("taskStatusCount"),
    }
    return {key: value for key, value in condition.items() if value}


def _job_status(job: Obj, known: Obj | None, now: datetime) -> Obj:
    """`known` is what the flow's status says about the job so far; a change of phase opens a new history entry."""
    status, phase, created = job.get("status") or {}, _phase(job), job["metadata"]["creationTimestamp"]
    histories = [dict(one) for one in (known or {}).get("runningHistories") or ()]
    if phase and (not histories or histories[-1].get("state") != phase):
        if histories:
            histories[-1]["endTimestamp"] = timestamp(now)
        histories.append({"startTimestamp": timestamp(now), "state": phase})
    result: Obj = {"name": name_of(job), "startTimestamp": created}
    if phase:
        result["state"] = phase
    if status.get("runningDuration"):
        ended = parse_timestamp(created) + timedelta(seconds=parse_duration(status["runningDuration"]))
        result["endTimestamp"] = timestamp(ended)
    if status.get("retryCount"):
        result["restartCount"] = status["retryCount"]
    if histories:
        result["runningHistories"] = histories
    return result


def _flow_phase(before: str, status: Obj, flows: int) -> str:
    completed, lost = status.get("completedJobs") or [], status.get("failedJobs") or status.get("terminatedJobs")
    if before == _SUCCEED:
        return before
    if before == _RUNNING:
        if len(completed) == flows:
            return _SUCCEED
        return _FAILED if lost else _RUNNING
    if (status.get("runningJobs") or completed) and not status.get("failedJobs"):
        return _RUNNING
    return _FAILED if lost else _PENDING
