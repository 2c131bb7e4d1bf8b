"""`mpi`: the master knows its workers, and every container opens the port they are reached on."""

from __future__ import annotations

from typing import ClassVar

from hekla.api.batch import TASK_SPEC
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.controllers.job.hosts import task_hosts
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import Wanted, every_container, open_port

_PORT_NAME = "mpijob-port"


class Mpi:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("master", "master", "task that starts the program"),
        Flag("worker", "worker", "task whose pods it runs on"),
        Flag("port", 22, "port of the workers' sshd"),
    )
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._master = arguments.text("master")
        self._worker = arguments.text("worker")
        self._port = arguments.number("port")

    def shape_pod(self, pod: Obj, job: Job) -> None:
        is_master = annotations_of(pod)[TASK_SPEC] == self._master
        workers = job.task(self._worker)
        if is_master and workers is None:
            # parity: a master without a worker task is left as it is, port included.
            return
        for container in every_container(pod):
            open_port(container, _PORT_NAME, self._port)
            if is_master and workers is not None:
                hosts = ",".join(task_hosts(job, workers))
                container.setdefault("env", []).append({"name": "MPI_HOST", **({"value": hosts} if hosts else {})})

    def objects(self, job: Job) -> list[Wanted]:
        return []
