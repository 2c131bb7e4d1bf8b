"""Kinds that make pods."""

from __future__ import annotations

from datetime import datetime

from hekla.api.duration import human_duration
from hekla.api.kinds import Obj
from hekla.api.meta import parse_timestamp
from hekla.apiserver.columns.cells import (
    AGE,
    INVALID,
    NAME,
    NONE,
    Cell,
    age,
    at,
    container_columns,
    labels_text,
    selector_text,
    text,
    whole_number,
)

_TEMPLATE = ("spec", "template")
# Of several conditions that hold, the one that is shown; a job being deleted is shown as that if neither of the first.
_JOB_ENDS = ("Complete", "Failed")
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _spec(field: str) -> Cell:
    return at("spec", field, default=0)


def _status(field: str) -> Cell:
    return at("status", field, default=0)


def _replicas(obj: Obj, now: datetime) -> str:
    return f"{_status('readyReplicas')(obj, now)}/{_spec('replicas')(obj, now)}"


def _selector(obj: Obj, now: datetime) -> str:
    return selector_text((obj.get("spec") or {}).get("selector"))


def _job_state(job: Obj, now: datetime) -> str:
    holding = {c.get("type") for c in (job.get("status") or {}).get("conditions") or () if c.get("status") == "True"}
    going = ["Terminating"] if job["metadata"].get("deletionTimestamp") else []
    states = [*(end for end in _JOB_ENDS if end in holding), *going, *(each for each in _JOB_STATES if each in holding)]
    return states[0] if states else "Running"


def _completions(job: Obj, now: datetime) -> str:
    spec, succeeded = job.get("spec") or {}, _status("succeeded")(job, now)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Obj, now: datetime) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    try:
        end = parse_timestamp(status["completionTime"]) if status.get("completionTime") else now
        return human_duration(int((end - parse_timestamp(status["startTime"])).total_seconds()))
    except ValueError:
        return INVALID


def _last_schedule(cron: Obj, now: datetime) -> str:
    last = (cron.get("status") or {}).get("lastScheduleTime")
    return age(last, now) if last else NONE


_REPLICAS = [
    NAME,
    whole_number("Desired", _spec("replicas")),
    whole_number("Current", _status("replicas")),
    whole_number("Ready", _status("readyReplicas")),
    AGE,
    *container_columns(*_TEMPLATE),
]

WORKLOADS = {
    "/podtemplates": [
        NAME,
        *container_columns("template", priority=0),
        text("Pod Labels", lambda obj, now: labels_text(at("template", "metadata", "labels", default=None)(obj, now))),
    ],
    "/replicationcontrollers": [
        *_REPLICAS,
        text("Selector", lambda obj, now: labels_text((obj.get("spec") or {}).get("selector")), 1),
    ],
    "apps/replicasets": [*_REPLICAS, text("Selector", _selector, 1)],
    "apps/deployments": [
        NAME,
        text("Ready", _replicas),
        text("Up-to-date", _status("updatedReplicas")),
        text("Available", _status("availableReplicas")),
        AGE,
        *container_columns(*_TEMPLATE),
        text("Selector", _selector, 1),
    ],
    "apps/statefulsets": [NAME, text("Ready", _replicas), AGE, *container_columns(*_TEMPLATE)],
    "apps/daemonsets": [
        NAME,
        whole_number("Desired", _status("desiredNumberScheduled")),
        whole_number("Current", _status("currentNumberScheduled")),
        whole_number("Ready", _status("numberReady")),
        whole_number("Up-to-date", _status("updatedNumberScheduled")),
        whole_number("Available", _status("numberAvailable")),
        text(
            "Node Selector",
            lambda obj, now: labels_text(at(*_TEMPLATE, "spec", "nodeSelector", default=None)(obj, now)),
        ),
        AGE,
        *container_columns(*_TEMPLATE),
        text("Selector", _selector, 1),
    ],
    "batch/jobs": [
        NAME,
        text("Status", _job_state),
        text("Completions", _completions),
        text("Duration", _duration),
        AGE,
        *container_columns(*_TEMPLATE),
        text("Selector", _selector, 1),
    ],
    "batch/cronjobs": [
        NAME,
        text("Schedule", at("spec", "schedule", default="")),
        text("Timezone", at("spec", "timeZone")),
        ("Suspend", "boolean", 0, lambda obj, now: str(bool((obj.get("spec") or {}).get("suspend")))),
        whole_number("Active", lambda obj, now: len((obj.get("status") or {}).get("active") or ())),
        text("Last Schedule", _last_schedule),
        AGE,
        *container_columns("spec", "jobTemplate", *_TEMPLATE),
        text(
            "Selector",
            lambda obj, now: selector_text(at("spec", "jobTemplate", "spec", "selector", default=None)(obj, now)),
            1,
        ),
    ],
}
