"""The three that are compared: our scheduler on our server, our scheduler on kube-apiserver, kube-scheduler there."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.control_plane import find_binaries, start_control_plane
from tests.eventually import eventually

ROOT = Path(__file__).parents[1]
HEKLA = Path(sys.executable).with_name("hekla")
EMBEDDED, REAL, KUBE = "Hekla", "Hekla on kube-apiserver", "kube-scheduler"
ENGINES = (EMBEDDED, REAL, KUBE)
_ALONE: tuple[str | Path, ...] = ("--leader-elect", "false", "--log-level", "warning")


@dataclass
class Engine:
    """A server that is up. `pids` are the processes that count, by what they are."""

    name: str
    kubeconfig: Path
    directory: Path
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def knows_groups(self) -> bool:
        return self.name != KUBE

    @contextlib.contextmanager
    def scheduler(self, conf: str = "") -> Iterator[int]:
        command = [HEKLA, "scheduler", *_ALONE] if self.knows_groups else _kube_scheduler()
        if conf and self.knows_groups:
            path = self.directory / "scheduler-conf.yaml"
            path.write_text(conf)
            command += ["--scheduler-conf", path]
        with self._component("scheduler", command) as pid:
            yield pid

    @contextlib.contextmanager
    def controllers(self) -> Iterator[int]:
        with self._component("controllers", [HEKLA, "controllers", *_ALONE]) as pid:
            yield pid

    @contextlib.contextmanager
    def _component(self, what: str, command: list[str | Path]) -> Iterator[int]:
        arguments = [*map(str, command), "--kubeconfig", str(self.kubeconfig)]
        with running(arguments, self.directory / f"{what}.log") as pid:
            self.pids[what] = pid
            yield pid
            del self.pids[what]


@contextlib.contextmanager
def started(name: str) -> Iterator[Engine]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        start = _our_server if name == EMBEDDED else _kube_apiserver
        with start(name, Path(directory)) as engine:
            yield engine


@contextlib.contextmanager
def _our_server(name: str, directory: Path) -> Iterator[Engine]:
    data, log = directory / "data", directory / "apiserver.log"
    command = [str(HEKLA), "apiserver", "--data-dir", str(data), "--log-level", "warning"]
    with running(command, log) as pid:
        eventually(lambda: "serving on" in log.read_text(), what="the API server is ready")
        yield Engine(name, data / "component.kubeconfig", directory, {"API server": pid})


@contextlib.contextmanager
def _kube_apiserver(name: str, directory: Path) -> Iterator[Engine]:
    with start_control_plane(_binaries(), directory, bare=True) as plane:
        pids = {"API server": plane.pids["kube-apiserver"], "etcd": plane.pids["etcd"]}
        yield Engine(name, plane.kubeconfig, directory, pids)


def _kube_scheduler() -> list[str | Path]:
    limits = ["--kube-api-qps=5000", "--kube-api-burst=10000"]
    return [_binaries() / "kube-scheduler", "--leader-elect=false", "--secure-port=0", *limits]


def _binaries() -> Path:
    return find_binaries() or Path(subprocess.check_output([ROOT / "scripts/build-envtest"], text=True).strip())


@contextlib.contextmanager
def running(command: list[str], output: Path) -> Iterator[int]:
    """The process id of a program that is stopped when the block ends; `output` gets what it says."""
    with output.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended early: {output.read_text()[-2000:]}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
