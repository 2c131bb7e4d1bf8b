"""The table of jobs: upstream's columns, and the reason of those that wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from hekla.api.batch import JOB_NAME
from hekla.api.kinds import Obj
from hekla.api.meta import controller_of, labels_of, name_of, namespace_of, parse_timestamp, uid_of
from hekla.cli.output import age
from hekla.cli.progress import (
    dependency_reason,
    is_finished,
    phase_of,
    predecessor_reason,
    queue_reason,
    task_rows,
    waited_and_ran,
    waiting_reason,
)

Table = tuple[list[str], list[list[object]]]

_JOB_TYPE = "volcano.sh/job-type"
_DEFAULT_TYPE = "Batch"
_HEADERS = [
    "NAME", "PHASE", "REASON", "REPLICAS", "MIN", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "RETRYCOUNT", "QUEUE",
    "AGE",
]  # fmt: skip
_WIDE = ["WAITED", "RAN", "UNKNOWN", "JOBTYPE", "CREATION"]


def job_table(
    jobs: Sequence[Obj],
    groups: Sequence[Obj],
    pods: Sequence[Obj],
    queues: Collection[str] | None,
    complaints: Mapping[str, str],
    now: datetime,
    *,
    namespaces: bool,
    wide: bool,
) -> Table:
    """Headers and rows. `groups` and `pods` are all that there are; each job finds its own by uid.

    `queues` are the names of all queues, None when they are not known; `complaints` are codes of what
    could not be done for jobs.
    """
    headers = [*(["NAMESPACE"] if namespaces else []), *_HEADERS, *(_WIDE if wide else [])]
    groups_of, pods_of = _by_owner(groups), _by_owner(pods)
    pods_of_name: dict[tuple[str, str], list[Obj]] = {}
    for pod in pods:
        pods_of_name.setdefault((namespace_of(pod), labels_of(pod).get(JOB_NAME, "")), []).append(pod)
    rows = []
    for job in jobs:
        mine = pods_of.get(uid_of(job), [])
        group = next(iter(groups_of.get(uid_of(job), ())), None)
        of_name = pods_of_name.get((namespace_of(job), name_of(job)), [])
        reasons = (
            queue_reason(job, queues, mine),
            predecessor_reason(job, of_name),
            waiting_reason(group, mine),
            dependency_reason(job, mine),
            (complaints.get(uid_of(job), "") if group is None and not mine else "", ""),
        )
        waits = next((code for code, _ in reasons if code), "")
        row = [*([namespace_of(job)] if namespaces else []), *_row(job, waits, mine, now)]
        rows.append([*row, *(_wide_part(job, mine, now) if wide else [])])
    return headers, rows


def lacks_group(jobs: Sequence[Obj], groups: Sequence[Obj]) -> bool:
    """Whether there is a job that has not ended and has no gang: somebody will have said why."""
    has_one = _by_owner(groups)
    return any(uid_of(job) not in has_one and not is_finished(job) for job in jobs)


def _row(job: Obj, waits: str, pods: list[Obj], now: datetime) -> list[object]:
    tasks = task_rows(job, pods)
    return [
        name_of(job),
        phase_of(job),
        "-" if is_finished(job) else waits or "-",
        sum(task.wanted for task in tasks),
        job["spec"].get("minAvailable", ""),
        sum(task.pending for task in tasks),
        sum(task.running for task in tasks),
        sum(task.done for task in tasks),
        sum(task.failed for task in tasks),
        (job.get("status") or {}).get("retryCount", 0),
        job["spec"].get("queue") or "default",
        age(parse_timestamp(job["metadata"]["creationTimestamp"]), now),
    ]


def _wide_part(job: Obj, pods: list[Obj], now: datetime) -> list[object]:
    created = str(job["metadata"]["creationTimestamp"]).partition("T")[0]
    return [
        *waited_and_ran(job, pods, now),
        (job.get("status") or {}).get("unknown", 0),
        labels_of(job).get(_JOB_TYPE) or _DEFAULT_TYPE,
        created,
    ]


def _by_owner(objects: Sequence[Obj]) -> dict[str, list[Obj]]:
    """Objects by the uid of the one that controls them."""
    owned: dict[str, list[Obj]] = {}
    for obj in objects:
        owner = controller_of(obj)
        if owner is not None:
            owned.setdefault(str(owner["uid"]), []).append(obj)
    return owned
