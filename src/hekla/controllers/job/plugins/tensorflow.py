"""`tensorflow`: every container of a distributed job gets TF_CONFIG."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from hekla.api.batch import TASK_INDEX, TASK_SPEC
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.controllers.job.hosts import host
from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.plugin import Wanted

_CLUSTER_ORDER = ("ps", "worker", "chief", "evaluator")
# Which role a task has is asked in another order; it matters only where two flags name one task.
_TYPE_ORDER = ("chief", "worker", "ps", "evaluator")


class TensorFlow:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("ps", "ps", "task of the parameter servers"),
        Flag("worker", "worker", "task of the workers"),
        Flag("chief", "chief", "task of the chief"),
        Flag("evaluator", "evaluator", "task of the evaluators"),
        Flag("port", 2222, "port the tasks listen on"),
    )
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._task_of = {role: arguments.text(role) for role in _CLUSTER_ORDER}
        self._port = arguments.number("port")

    def shape_pod(self, pod: Obj, job: Job) -> None:
        if len(job.tasks) == 1 and job.tasks[0].replicas == 1:
            return
        config = msgspec.json.encode(self._config(pod, job)).decode()
        for container in pod["spec"].get("containers") or ():
            container.setdefault("env", []).append({"name": "TF_CONFIG", "value": config})

    def objects(self, job: Job) -> list[Wanted]:
        return []

    def _config(self, pod: Obj, job: Job) -> Obj:
        name = annotations_of(pod)[TASK_SPEC]
        members = {
            role: [host for task in job.tasks for host in self._members(job, task, role)] for role in _CLUSTER_ORDER
        }
        return {
            "cluster": {role: hosts for role, hosts in members.items() if hosts},
            "task": {"type": self._role(name, _TYPE_ORDER) or name, "index": int(annotations_of(pod)[TASK_INDEX])},
        }

    def _members(self, job: Job, task: Task, role: str) -> list[str]:
        if self._role(task.name, _CLUSTER_ORDER) != role:
            return []
        # parity: a fixed hostname is repeated for every replica here.
        return [f"{host(job, task, index)}:{self._port}" for index in range(task.replicas)]

    def _role(self, task: str, order: tuple[str, ...]) -> str:
        """The first role that names a task; none for a task that no role names."""
        return next((role for role in order if self._task_of[role] == task), "")
