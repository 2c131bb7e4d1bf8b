"""The pods of a Job: which must go, which must be made, and what a made one looks like."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import msgspec

from hekla.api import batch
from hekla.api.core import PodPhase
from hekla.api.kinds import JOB, Obj
from hekla.api.meta import annotations_of, labels_of, owner_reference
from hekla.api.scheduling import GROUP_NAME
from hekla.api.stored import pod_spec_as_stored
from hekla.controllers.job.lifecycle import Operation
from hekla.controllers.job.model import Job, Pod, Task
from hekla.controllers.job.policy import Occurrence

_SUFFIX = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX_LENGTH = 12
_DEFAULT_TASK = "default"


# A task and an index in it.
Place = tuple[Task, int]


class Plan(msgspec.Struct, frozen=True):
    """What converging means now. `surplus` pods are marked before they are deleted: their going is no eviction."""

    create: tuple[Place, ...]
    surplus: tuple[Pod, ...]
    delete: tuple[Pod, ...]


def pod_name(job: Job, task: Task, index: int) -> str:
    return f"{job.key.name}-{task.name}-{index}"


def group_name(job: Job) -> str:
    return f"{job.key.name}-{job.uid}"


def plan(job: Job, pods: list[Pod], *, may_create: bool) -> Plan:
    """What is missing, what is too much and what is left over from a kill."""
    taken = {pod.name for pod in pods}
    replicas = {task.name: task.replicas for task in job.tasks}
    wanted = [task for task in job.tasks if may_create and dependencies_ready(job, task, pods)]
    create = [
        (task, index) for task in wanted for index in range(task.replicas) if pod_name(job, task, index) not in taken
    ]
    staying = [pod for pod in pods if not pod.deleting]
    delete = [pod for pod in staying if pod.marked or is_left_over(job, pod)]
    going = {pod.uid for pod in delete}
    surplus = [pod for pod in staying if pod.uid not in going and pod.index >= replicas.get(pod.task, 0)]
    return Plan(tuple(create), tuple(surplus), tuple(delete))


def is_left_over(job: Job, pod: Pod) -> bool:
    """A pod that a kill of the whole job did not get to delete.

    Every such kill raises the job's version. What finished before a suspension is two versions behind after the
    resume and stays; what finished in the attempt that used up the retries stays, too.
    """
    if pod.version >= job.version:
        return False
    kept = pod.is_finished and (pod.version < job.version - 1 or job.retry_count >= job.max_retry)
    return not kept


def victims(
    job: Job, pods: Iterable[Pod], operation: Operation, action: str, occurrence: Occurrence | None
) -> list[Pod]:
    """The pods a kill is about, those already on their way out included."""
    match operation:
        case Operation.KILL_ALL:
            return [pod for pod in pods if not (job.on_last_retry and pod.is_finished)]
        case Operation.KILL_UNFINISHED:
            return [pod for pod in pods if not pod.is_finished]
        case Operation.KILL_TARGET:
            return [pod for pod in pods if occurrence and _is_target(job, pod, occurrence, action)]
        case Operation.SYNC:
            return []


def dependencies_ready(job: Job, task: Task, pods: list[Pod]) -> bool:
    if not task.depends_on:
        return True
    ready = [_is_ready(job.task(name), pods) for name in task.depends_on]
    return any(ready) if task.depends_on_any else all(ready)


def build_pod(job: Job, task: Task, index: int, *, claims: Mapping[str, str], rng: random.Random) -> Obj:
    """The pod `index` of a task, before plugins. `claims` maps names of PersistentVolumeClaims to mount paths."""
    return PodTemplate(job, task).build(index, claims=claims, rng=rng)


class PodTemplate:
    """What the pods of one task have in common, worked out and encoded once."""

    def __init__(self, job: Job, task: Task) -> None:
        template = task.obj.get("template") or {}
        spec = pod_spec_as_stored(template.get("spec") or {})
        job_spec = job.obj["spec"]
        for field in ("schedulerName", "priorityClassName"):
            if not spec.get(field) and job_spec.get(field):
                spec[field] = job_spec[field]
        # Admission fills this in; on a cluster without it the pods are the gang scheduler's nevertheless.
        spec["schedulerName"] = spec.get("schedulerName") or batch.SCHEDULER_NAME
        meta = template.get("metadata") or {}
        self._job, self._task, self._spec = job, task, spec
        self._labels = {**(meta.get("labels") or {}), **_labels(job, task)}
        self._annotations = {**(meta.get("annotations") or {}), **_annotations(job, task)}
        self._owners = [owner_reference(job.obj, JOB)]
        self._encoded: bytes = b""

    def build(self, index: int, *, claims: Mapping[str, str], rng: random.Random, own: bool = True) -> Obj:
        """A pod that is the caller's own to change, all of it, or else one that must stay as it is."""
        job, task = self._job, self._task
        spec, owners = self._spec, self._owners
        if own or claims:
            # Encoded once and decoded for each: a tenth of the time of copying it.
            self._encoded = self._encoded or msgspec.json.encode((spec, owners))
            spec, owners = msgspec.json.decode(self._encoded)
        labels = {**self._labels, batch.TASK_INDEX: str(index)}
        if task.partition_size is not None:
            labels[batch.PARTITION_ID] = str(task.partition_of(index))
        pod: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name(job, task, index),
                "namespace": job.key.namespace,
                "labels": labels,
                "annotations": {**self._annotations, batch.TASK_INDEX: str(index)},
                "ownerReferences": owners,
            },
            "spec": spec,
        }
        _mount_claims(job, spec, claims, rng)
        return pod


def _is_target(job: Job, pod: Pod, occurrence: Occurrence, action: str) -> bool:
    if pod.marked and pod.deleting:
        return False
    if action == batch.JobAction.RESTART_POD:
        return pod.name == occurrence.pod
    if pod.task != occurrence.task:
        return False
    if action == batch.JobAction.RESTART_TASK:
        return True
    task = job.task(pod.task)
    return task is not None and task.partition_of(pod.index) == occurrence.partition


def _is_ready(task: Task | None, pods: list[Pod]) -> bool:
    if task is None or task.min_available is None:
        return True
    ready = [
        pod
        for pod in pods
        if pod.task == task.name and (pod.phase == PodPhase.SUCCEEDED or (pod.phase == PodPhase.RUNNING and pod.ready))
    ]
    return len(ready) >= task.min_available


def _labels(job: Job, task: Task) -> dict[str, str]:
    labels = {
        batch.JOB_NAME: job.key.name,
        batch.TASK_SPEC: task.name or _DEFAULT_TASK,
        batch.JOB_NAMESPACE: job.key.namespace,
        batch.QUEUE_NAME: str(job.obj["spec"].get("queue") or ""),
    }
    given = labels_of(job.obj)
    labels |= {key: given[key] for key in (batch.PREEMPTABLE, batch.COOLDOWN_TIME) if key in given}
    if annotations_of(job.obj).get(batch.JOB_FORWARDING) == "true":
        labels[batch.JOB_FORWARDING] = "true"
    return labels


def _annotations(job: Job, task: Task) -> dict[str, str]:
    annotations = {
        batch.TASK_SPEC: task.name or _DEFAULT_TASK,
        GROUP_NAME: group_name(job),
        batch.JOB_NAME: job.key.name,
        batch.QUEUE_NAME: str(job.obj["spec"].get("queue") or ""),
        batch.JOB_VERSION: str(job.version),
        batch.TEMPLATE_UID: f"{job.key.name}-{task.name}",
        batch.JOB_RETRY_COUNT: str(job.retry_count),
    }
    if task.obj.get("topologyPolicy"):
        annotations[batch.NUMA_TOPOLOGY_POLICY] = str(task.obj["topologyPolicy"])
    given = annotations_of(job.obj)
    copied = [batch.PREEMPTABLE, batch.COOLDOWN_TIME, batch.REVOCABLE_ZONE]
    copied.append(batch.JDB_MIN_AVAILABLE if batch.JDB_MIN_AVAILABLE in given else batch.JDB_MAX_UNAVAILABLE)
    annotations |= {key: given[key] for key in copied if key in given}
    if given.get(batch.JOB_FORWARDING) == "true":
        annotations[batch.JOB_FORWARDING] = "true"
    return annotations


def _mount_claims(job: Job, spec: Obj, claims: Mapping[str, str], rng: random.Random) -> None:
    for claim, path in claims.items():
        name = f"{job.key.name}-{random_suffix(rng)}"
        spec.setdefault("volumes", []).append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        for container in spec.get("containers") or ():
            container.setdefault("volumeMounts", []).append({"name": name, "mountPath": path})


def random_suffix(rng: random.Random) -> str:
    return "".join(rng.choices(_SUFFIX, k=_SUFFIX_LENGTH))
