"""The DNS names of a job's pods, as plugins write them into files and variables."""

from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.pods import pod_name


def task_hosts(job: Job, task: Task) -> list[str]:
    """Every host of a task by its full name."""
    return [f"{name}.{_domain(job, task)}" for name in host_names(job, task)]


def host_names(job: Job, task: Task) -> list[str]:
    """Every host of a task; a task whose template fixes the hostname has one for all its pods, if it has any."""
    fixed = _pod_spec(task).get("hostname")
    return [fixed][: task.replicas] if fixed else [pod_name(job, task, index) for index in range(task.replicas)]


def host(job: Job, task: Task, index: int) -> str:
    """`<pod>.<job>`, relative to the namespace's search domain."""
    return f"{_pod_spec(task).get('hostname') or pod_name(job, task, index)}.{_domain(job, task)}"


def _domain(job: Job, task: Task) -> str:
    return _pod_spec(task).get("subdomain") or job.key.name


def _pod_spec(task: Task) -> Obj:
    return (task.obj.get("template") or {}).get("spec") or {}
