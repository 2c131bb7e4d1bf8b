"""`env`: every container knows its pod's index inside the task."""

from __future__ import annotations

from typing import ClassVar

from hekla.api.batch import TASK_INDEX
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import Wanted, every_container

# The first is the old name of the second; manifests use both.
_VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class Env:
    flags: ClassVar[tuple[Flag, ...] | None] = None
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        pass

    def shape_pod(self, pod: Obj, job: Job) -> None:
        index = annotations_of(pod)[TASK_INDEX]
        for container in every_container(pod):
            container.setdefault("env", []).extend({"name": name, "value": index} for name in _VARIABLES)

    def objects(self, job: Job) -> list[Wanted]:
        return []
