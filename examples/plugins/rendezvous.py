"""A job plugin of one file: every pod is told where its job meets, and the job gets a ConfigMap that says so.

plugins:
  rendezvous: ["--port=29400"]
"""

from __future__ import annotations

from typing import ClassVar

from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import CONFIG_MAP, Obj
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import Wanted, every_container, owned


class Rendezvous:
    flags: ClassVar[tuple[Flag, ...] | None] = (Flag("port", 29400, "where the first pod listens"),)
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._port = arguments.number("port")

    def shape_pod(self, pod: Obj, job: Job) -> None:
        for container in every_container(pod):
            container.setdefault("env", []).append({"name": "RENDEZVOUS", "value": self._meeting_point(job)})

    def objects(self, job: Job) -> list[Wanted]:
        name = f"{job.key.name}-rendezvous"
        data = {"endpoint": self._meeting_point(job)}
        return [Wanted(CONFIG_MAP, owned(job, CONFIG_MAP, name, data=data), followed=("data",))]

    def _meeting_point(self, job: Job) -> str:
        first = job.tasks[0].name
        return f"{job.key.name}-{first}-0.{job.key.name}:{self._port}"
