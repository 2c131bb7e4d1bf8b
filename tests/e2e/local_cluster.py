"""A local cluster in its own data dir, started and used as a person would: through the programs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.eventually import eventually

HEKLA = Path(sys.executable).with_name("hekla")
ROOT = Path(__file__).parents[2]
HELLO_GANG = ROOT / "examples" / "hello-gang" / "job.yaml"


class LocalCluster:
    def __init__(self, data_dir: Path, kubectl: str = "kubectl") -> None:
        self.data_dir = data_dir
        self.kubeconfig = data_dir / "kubeconfig"
        self.kubectl_program = kubectl

    def hekla(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [HEKLA, *arguments, "--data-dir", self.data_dir]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=clean_environment())
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def kubectl(self, *arguments: str | Path, check: bool = True, stdin: str | None = None) -> str:
        command = [self.kubectl_program, "--kubeconfig", self.kubeconfig, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, input=stdin)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if not check else "")

    def wait_for(self, what: str, path: str, value: str) -> None:
        """Until the field is that; `kubectl wait` knows of no fields before 1.23."""
        eventually(lambda: self.kubectl("get", what, "-o", f"jsonpath={{{path}}}") == value, what=f"{what} is {value}")

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def names(self, kind: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(kind)["items"]]

    def components(self) -> dict[str, dict[str, Any]]:
        status = json.loads((self.data_dir / "run" / "status.json").read_text())
        return {part["name"]: part for part in status["components"]}

    def supervisor(self) -> int:
        return int(json.loads((self.data_dir / "run" / "status.json").read_text())["pid"])

    def log_tails(self) -> str:
        logs = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)


def clean_environment() -> dict[str, str]:
    """Ours without what would point commands at another cluster."""
    return {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "HEKLA_DATA_DIR")}


@contextlib.contextmanager
def start_cluster(data_dir: Path, *flags: str, kubectl: str = "kubectl") -> Iterator[LocalCluster]:
    """`hekla up` until the block ends; then it is stopped, and nothing of it may be left."""
    cluster = LocalCluster(data_dir, kubectl)
    with running(data_dir, *flags):
        yield cluster


@contextlib.contextmanager
def running(data_dir: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """`hekla up` in the foreground, as in a terminal."""
    output = data_dir.parent / f"{data_dir.name}.up.log"
    with output.open("w") as file:
        process = subprocess.Popen(
            [HEKLA, "up", "--data-dir", data_dir, *flags],
            stdout=file,
            stderr=file,
            text=True,
            env=clean_environment(),
            start_new_session=True,
        )
    try:
        eventually(lambda: _is_ready(process, output), what="hekla up is ready")
        yield process
        assert refused_to_components(data_dir) == [], "a role in local/roles.py lacks something"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        process.kill()
        process.wait()


@contextlib.contextmanager
def forwarded(
    cluster: LocalCluster, what: str, port: int, *, namespace: str = "default", websockets: bool = True
) -> Iterator[int]:
    """The local port behind which `kubectl port-forward` has that of a pod or Service."""
    environment = {**os.environ, "KUBECTL_PORT_FORWARD_WEBSOCKETS": str(websockets).lower()}
    kubectl = [cluster.kubectl_program, "--kubeconfig", str(cluster.kubeconfig), "-n", namespace]
    command = [*kubectl, "port-forward", "--address=127.0.0.1", what, f":{port}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Forwarding from 127.0.0.1:"), line + process.stdout.read()
        try:
            yield int(line.removeprefix("Forwarding from 127.0.0.1:").split()[0])
        finally:
            process.terminate()


def refused_to_components(data_dir: Path) -> list[str]:
    """What our own components wanted and were not allowed, as the API server's log tells it."""
    log = data_dir / "logs" / "apiserver.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if "hekla.access: forbidden" in line]


def _is_ready(process: subprocess.Popen[str], output: Path) -> bool:
    text = output.read_text()
    if process.poll() is not None:
        raise RuntimeError(f"hekla up ended: {text}")
    return "Ready." in text


def processes_of(data_dir: Path) -> list[str]:
    """Every process that has to do with this data dir, by command line, environment or root."""
    marker = os.fsencode(str(data_dir))
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            text = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            if marker in text:
                found.append(f"{entry.name}: {(entry / 'cmdline').read_bytes()!r}")
    return found


def mounts_of(data_dir: Path) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(data_dir) in line]
