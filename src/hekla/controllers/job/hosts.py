"""The DNS names of a job's pods, as plugins write them into files and variables."""

from __future__ import annotations

from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.pods import pod_name


def task_hosts(job: Job, task: Task) -> list[str]:
    """Every host of a task; a task whose template fixes the hostname has one for all its pods."""
    spec = (task.obj.get("template") or {}).get("spec") or {}
    if spec.get("hostname"):
        return [host(job, task, 0)]
    return [host(job, task, index) for index in range(task.replicas)]


def host(job: Job, task: Task, index: int) -> str:
    """`<pod>.<job>`, relative to the namespace's search domain."""
    spec = (task.obj.get("template") or {}).get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job, task, index)}.{spec.get('subdomain') or job.key.name}"
