"""A Job and its pods as the controller's decisions see them: read once from the objects, never changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from hekla.api.batch import (
    EVICTED_AT,
    JOB_NAME,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    OUT_OF_SYNC,
    TASK_INDEX,
    TASK_SPEC,
    WAITING_SINCE,
)
from hekla.api.core import FINISHED_POD_PHASES, PodPhase
from hekla.api.duration import InvalidDuration, canonical_duration, parse_duration
from hekla.api.kinds import Obj
from hekla.api.meta import (
    Key,
    annotations_of,
    controller_of,
    count_of,
    is_deleting,
    key_of,
    labels_of,
    parse_timestamp,
    timestamp,
    uid_of,
)

_DEFAULT_MAX_RETRY = 3


class Policy(msgspec.Struct, frozen=True, gc=False):
    """A lifecycle policy: `timeout` 0 means at once; `exit_code` 0 means none."""

    action: str
    events: frozenset[str]
    exit_code: int
    timeout: float
    timeout_text: str = ""


class Task(msgspec.Struct, frozen=True, gc=False):
    name: str
    replicas: int
    min_available: int | None
    max_retry: int
    policies: tuple[Policy, ...]
    depends_on: tuple[str, ...]
    depends_on_any: bool
    partition_size: int | None
    min_partitions: int
    obj: Obj

    @property
    def effective_min_available(self) -> int:
        return self.replicas if self.min_available is None else self.min_available

    def partition_of(self, index: int) -> int:
        return index // self.partition_size if self.partition_size and self.partition_size > 0 else 0


class Job(msgspec.Struct, frozen=True, gc=False):
    key: Key
    uid: str
    phase: str
    version: int
    retry_count: int
    max_retry: int
    min_available: int
    min_success: int | None
    tasks: tuple[Task, ...]
    policies: tuple[Policy, ...]
    obj: Obj

    @property
    def replicas(self) -> int:
        return sum(task.replicas for task in self.tasks)

    @property
    def on_last_retry(self) -> bool:
        """The next restart is the one that fails the job: what finished in this attempt is kept to be looked at."""
        return self.retry_count >= self.max_retry - 1

    def task(self, name: str) -> Task | None:
        return next((task for task in self.tasks if task.name == name), None)


class Pod(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str
    task: str
    index: int
    version: int
    phase: str
    marked: bool
    deleting: bool
    exit_code: int
    restarts: int
    ready: bool
    created: datetime
    finished: datetime | None
    evicted: datetime | None
    """When the pod it was made in place of was evicted, if a delayed answer to that still waits."""
    waiting_since: datetime | None = None
    """Since when a delayed answer waits to what happened to it, if nothing else tells."""
    attempt: int | None = None
    """How many retries its job had used when it was made."""
    bare: bool = False
    """Whether somebody has taken marks off it, so that only who saw them before knows what they told."""

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED_POD_PHASES


def read_job(obj: Obj, before: Job | None = None) -> Job:
    """`before` is the same Job as it was read last: what its user wrote is read again only when that has changed."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if before is None or not _is_as_written(obj, before.obj):
        tasks = tuple([_read_task(task) for task in spec.get("tasks") or ()])
        policies = _read_policies(spec.get("policies"))
    else:
        tasks, policies = before.tasks, before.policies
    return Job(
        key=key_of(obj),
        uid=uid_of(obj),
        phase=str((status.get("state") or {}).get("phase") or ""),
        version=int(status.get("version") or 0),
        retry_count=int(status.get("retryCount") or 0),
        max_retry=int(spec.get("maxRetry") or 0),
        min_available=int(spec.get("minAvailable") or 0),
        min_success=spec.get("minSuccess"),
        tasks=tasks,
        policies=policies,
        obj=obj,
    )


def read_pod(obj: Obj) -> Pod | None:
    """None for a pod that does not carry our marks."""
    annotations, status = annotations_of(obj), obj.get("status") or {}
    version, task = count_of(annotations.get(JOB_VERSION, "")), annotations.get(TASK_SPEC, "")
    index = count_of(labels_of(obj).get(TASK_INDEX) or obj["metadata"]["name"].rpartition("-")[2])
    if not annotations.get(JOB_NAME) or not task or version is None or index is None:
        return None
    statuses = status.get("containerStatuses") or []
    every = [*(status.get("initContainerStatuses") or ()), *statuses]
    return Pod(
        name=obj["metadata"]["name"],
        uid=uid_of(obj),
        task=task,
        index=index,
        version=version,
        phase=str(status.get("phase") or PodPhase.PENDING),
        marked=OUT_OF_SYNC in annotations,
        deleting=is_deleting(obj),
        exit_code=_exit_code(statuses),
        restarts=sum(int(container.get("restartCount") or 0) for container in every),
        ready=all(container.get("ready") for container in statuses),
        created=parse_timestamp(obj["metadata"]["creationTimestamp"]),
        finished=_finished_at(every),
        evicted=read_moment(annotations.get(EVICTED_AT)),
        waiting_since=read_moment(annotations.get(WAITING_SINCE)),
        attempt=count_of(annotations.get(JOB_RETRY_COUNT, "")),
    )


def read_known_pod(obj: Obj, known: Pod) -> Pod | None:
    """A pod that was read before; where somebody has taken off any of its marks since, with all that were on it."""
    record, owner = read_pod(obj), controller_of(obj)
    if owner is None or known.uid != uid_of(obj) or (record is not None and not _lacks_marks(record, known)):
        return record
    marks = marks_of(str(owner.get("name") or ""), known)
    labels = {**labels_of(obj), **marks["labels"]}
    annotations = {**annotations_of(obj), **marks["annotations"]}
    restored = read_pod({**obj, "metadata": {**obj["metadata"], "labels": labels, "annotations": annotations}})
    return None if restored is None else msgspec.structs.replace(restored, bare=True)


def marks_of(job_name: str, pod: Pod) -> Obj:
    """The metadata that tells which of a job's pods one is, and what has become of it. Once written, it stays so."""
    annotations = {JOB_NAME: job_name, TASK_SPEC: pod.task, JOB_VERSION: str(pod.version)}
    if pod.attempt is not None:
        annotations[JOB_RETRY_COUNT] = str(pod.attempt)
    if pod.marked:
        annotations[OUT_OF_SYNC] = "true"
    if pod.evicted is not None:
        annotations[EVICTED_AT] = timestamp(pod.evicted)
    if pod.waiting_since is not None:
        annotations[WAITING_SINCE] = timestamp(pod.waiting_since)
    return {"labels": {TASK_INDEX: str(pod.index)}, "annotations": annotations}


def read_pods(objects: Iterable[Obj]) -> list[Pod]:
    """The pods that carry our marks, by task and index; others are not ours to count."""
    pods = [pod for pod in map(read_pod, objects) if pod is not None]
    return sorted(pods, key=lambda pod: (pod.task, pod.index, pod.name))


def read_moment(text: str | None) -> datetime | None:
    """The moment an annotation tells; None where it is missing, or tells none."""
    try:
        return parse_timestamp(text) if text else None
    except ValueError:
        return None


def _lacks_marks(record: Pod, known: Pod) -> bool:
    return (
        (known.marked and not record.marked)
        or (known.attempt is not None and record.attempt is None)
        or (known.evicted is not None and record.evicted is None)
        or (known.waiting_since is not None and record.waiting_since is None)
    )


def _is_as_written(obj: Obj, before: Obj) -> bool:
    """Whether the spec is still the same: by the generation, which a server counts up with every change of it."""
    new, old = obj["metadata"], before["metadata"]
    generation = new.get("generation")
    return bool(generation) and generation == old.get("generation") and new.get("uid") == old.get("uid")


def _read_task(obj: Obj) -> Task:
    depends_on = obj.get("dependsOn") or {}
    names = tuple(depends_on.get("name") or ())
    partition = obj.get("partitionPolicy")
    return Task(
        name=str(obj.get("name") or ""),
        replicas=int(obj.get("replicas") or 0),
        min_available=obj.get("minAvailable"),
        max_retry=int(obj.get("maxRetry") or _DEFAULT_MAX_RETRY),
        policies=_read_policies(obj.get("policies")),
        depends_on=names,
        # parity: `any` is honoured only with several dependencies, where it differs from `all`.
        depends_on_any=depends_on.get("iteration") == "any" and len(names) > 1,
        partition_size=None if partition is None else int(partition.get("partitionSize") or 0),
        min_partitions=int((partition or {}).get("minPartitions") or 0),
        obj=obj,
    )


def _read_policies(policies: list[Obj] | None) -> tuple[Policy, ...]:
    return tuple([_read_policy(policy) for policy in policies]) if policies else ()


def _read_policy(policy: Obj) -> Policy:
    events = [*(policy.get("events") or ()), *([policy["event"]] if policy.get("event") else [])]
    try:
        timeout = parse_duration(str(policy.get("timeout") or "0"))
    except InvalidDuration:
        timeout = 0.0
    code = int(policy.get("exitCode") or 0)
    text = canonical_duration(policy["timeout"]) if timeout else ""
    return Policy(str(policy.get("action") or ""), frozenset(events), code, timeout, text)


def _exit_code(statuses: list[Obj]) -> int:
    """Of the first container, as policies see it; 0 when it did not run."""
    if not statuses:
        return 0
    terminated = (statuses[0].get("state") or {}).get("terminated") or {}
    return int(terminated.get("exitCode") or 0)


def _finished_at(statuses: list[Obj]) -> datetime | None:
    """When the last container ended; None while one is said to run, as of a pod that was lost with its node."""
    states = [status.get("state") or {} for status in statuses]
    if any(state.get("running") is not None for state in states):
        return None
    times = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    return max((parse_timestamp(time) for time in times if time), default=None)
