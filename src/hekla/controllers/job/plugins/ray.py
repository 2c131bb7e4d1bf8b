"""`ray`: a head and its workers are started, and a Service leads to the head."""

from __future__ import annotations

from typing import ClassVar

from hekla.api.batch import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import SERVICE, Obj
from hekla.api.meta import annotations_of
from hekla.controllers.job.hosts import host
from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.plugin import PluginRefused, Wanted, as_port, open_port, owned


class Ray:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("head", "head", "task of the head"),
        Flag("headContainer", "head", "container that runs the head"),
        Flag("worker", "worker", "task of the workers"),
        Flag("workerContainer", "worker", "container that runs a worker"),
        Flag("port", 6379, "port of the head's store"),
        Flag("dashboardPort", 8265, "port of the dashboard"),
        Flag("clientPort", 10001, "port for clients"),
        # The name upstream's guide uses for the one above.
        Flag("clientServerPort", 0, "port for clients"),
    )
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._head = arguments.text("head")
        self._head_container = arguments.text("headContainer")
        self._worker = arguments.text("worker")
        self._worker_container = arguments.text("workerContainer")
        self._ports = {
            "gcs": arguments.number("port"),
            "dashboard": arguments.number("dashboardPort"),
            "client-server": arguments.number("clientServerPort") or arguments.number("clientPort"),
        }

    def shape_pod(self, pod: Obj, job: Job) -> None:
        head = job.task(self._head)
        if head is None:
            raise PluginRefused(f"job {job.key.name} doesn't have head task {self._head}")
        task = annotations_of(pod)[TASK_SPEC]
        for container in pod["spec"].get("containers") or ():
            if task == self._head and container.get("name") == self._head_container:
                self._make_head(container)
            if task == self._worker and container.get("name") == self._worker_container:
                container["command"] = ["sh", "-c", f"ray start --block --address={self._address(job, head)}"]

    def objects(self, job: Job) -> list[Wanted]:
        selector = {JOB_NAME: job.key.name, JOB_NAMESPACE: job.key.namespace, TASK_SPEC: self._head}
        given = self._given_names(job)
        ports = [
            # A number that the head's container has under another name has no port of our name to lead to.
            {
                "name": name,
                "port": port,
                "targetPort": name if name in given.get(port, [name]) else port,
                "protocol": "TCP",
            }
            for name, port in ((name, as_port(number)) for name, number in self._ports.items())
        ]
        service = owned(job, SERVICE, f"{job.key.name}-head-svc", spec={"selector": selector, "ports": ports})
        return [Wanted(SERVICE, service)]

    def _given_names(self, job: Job) -> dict[int, list[str]]:
        """The ports of the head's container as the user wrote them: their names by number."""
        task = job.task(self._head)
        spec = ((task.obj if task else {}).get("template") or {}).get("spec") or {}
        heads = [one for one in spec.get("containers") or () if one.get("name") == self._head_container]
        ports = [port for container in heads for port in container.get("ports") or ()]
        names: dict[int, list[str]] = {}
        for port in ports:
            names.setdefault(int(port["containerPort"]), []).append(str(port.get("name") or ""))
        return names

    def _make_head(self, container: Obj) -> None:
        for name, port in self._ports.items():
            open_port(container, name, port)
        start = (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={self._ports['gcs']} "
            f"--dashboard-port={self._ports['dashboard']} --ray-client-server-port={self._ports['client-server']}"
        )
        container["command"] = ["sh", "-c", start]

    def _address(self, job: Job, head: Task) -> str:
        return f"{host(job, head, 0)}:{self._ports['gcs']}"
