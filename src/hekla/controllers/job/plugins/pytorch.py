"""`pytorch`: the variables of torch.distributed, and on wish an init container that waits for the master."""

from __future__ import annotations

from typing import ClassVar

from hekla.api.batch import TASK_INDEX, TASK_SPEC
from hekla.api.job_plugins import Arguments, Flag
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of
from hekla.controllers.job.hosts import host
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import Wanted, open_port

_PORT_NAME = "pytorchjob-port"
_WAITER = "wait-for-master"
_WAIT_SCRIPT = """\
echo "Waiting for master node {address}:{port} to be ready..."
elapsed=0
until nc -z {address} {port} 2>/dev/null || (: </dev/tcp/{address}/{port}) 2>/dev/null; do
  if [ "$elapsed" -ge {timeout} ]; then
    echo "Timeout waiting for master after {timeout} seconds"
    exit 1
  fi
  echo "Master not ready yet, retrying in 2 seconds... (elapsed: ${{elapsed}}s)"
  sleep 2
  elapsed=$((elapsed + 2))
done
echo "Master node is ready!\""""


class PyTorch:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("master", "master", "task of rank 0"),
        Flag("worker", "worker", "task of the other ranks"),
        Flag("port", 23456, "port the master listens on"),
        Flag("wait-master-enabled", False, "hold workers back until the master listens"),
        Flag("wait-master-timeout", 300, "seconds after which a worker gives up waiting"),
        Flag("wait-master-image", "busybox:1.36.1", "image the waiting runs in"),
    )
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._master = arguments.text("master")
        self._worker = arguments.text("worker")
        self._port = arguments.number("port")
        self._waits = arguments.switch("wait-master-enabled")
        self._timeout = arguments.number("wait-master-timeout")
        self._image = arguments.text("wait-master-image")

    def shape_pod(self, pod: Obj, job: Job) -> None:
        master = job.task(self._master)
        if master is None:
            return
        address = host(job, master, 0)
        task = annotations_of(pod)[TASK_SPEC]
        if self._waits and task == self._worker:
            self._add_waiter(pod["spec"], address)
        variables = self._variables(pod, job, address)
        for container in pod["spec"].get("containers") or ():
            open_port(container, _PORT_NAME, self._port)
            container.setdefault("env", []).extend(dict(variable) for variable in variables)

    def objects(self, job: Job) -> list[Wanted]:
        return []

    def _variables(self, pod: Obj, job: Job, address: str) -> list[Obj]:
        size = sum(task.replicas for task in job.tasks if task.name in (self._master, self._worker))
        values = {"MASTER_ADDR": address, "MASTER_PORT": str(self._port), "WORLD_SIZE": str(size)}
        task = annotations_of(pod)[TASK_SPEC]
        if task == self._worker:
            values["RANK"] = str(int(annotations_of(pod)[TASK_INDEX]) + 1)
        elif task == self._master:
            values["RANK"] = "0"
        return [{"name": name, "value": value} for name, value in values.items()]

    def _add_waiter(self, spec: Obj, address: str) -> None:
        present = spec.setdefault("initContainers", [])
        if any(container.get("name") == _WAITER for container in present):
            return
        script = _WAIT_SCRIPT.format(address=address, port=self._port, timeout=self._timeout)
        present.append({"name": _WAITER, "image": self._image, "command": ["sh", "-c", script]})
