"""`hcclrank`: the rank of a pod for Ascend accelerators, as an annotation."""

from __future__ import annotations

from typing import ClassVar

from hekla.api.batch import TASK_INDEX, TASK_SPEC
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, labels_of
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import Wanted

_RANK_INDEX = "hccl/rankIndex"


class HcclRank:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("master", "master", "task of the first ranks"),
        Flag("worker", "worker", "task of the ranks after them"),
    )
    records: ClassVar[bool] = False

    def __init__(self, arguments: Arguments) -> None:
        self._master = arguments.text("master")
        self._worker = arguments.text("worker")

    def shape_pod(self, pod: Obj, job: Job) -> None:
        if annotations_of(pod).get(_RANK_INDEX):
            return
        rank = _rank_variable(pod) or self._rank(pod, job)
        if rank:
            pod["metadata"].setdefault("annotations", {})[_RANK_INDEX] = rank

    def objects(self, job: Job) -> list[Wanted]:
        return []

    def _rank(self, pod: Obj, job: Job) -> str:
        task, index = annotations_of(pod)[TASK_SPEC], int(labels_of(pod)[TASK_INDEX])
        if task == self._master:
            return str(index)
        if task == self._worker:
            master = job.task(self._master)
            return str((master.replicas if master else 0) + index)
        return ""


def _rank_variable(pod: Obj) -> str:
    """The value of the first RANK; one that is taken from elsewhere ends the search without a value."""
    for container in pod["spec"].get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == "RANK":
                return str(variable.get("value") or "")
    return ""
