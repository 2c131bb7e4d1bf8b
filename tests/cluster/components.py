"""Our components as their own processes against a real API server."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.control_plane import ControlPlane
from tests.eventually import eventually

HEKLA = Path(sys.executable).with_name("hekla")


@contextlib.contextmanager
def start_components(plane: ControlPlane, directory: Path, *, node_cpu: str = "4") -> Iterator[None]:
    """CRDs, controllers, scheduler and a node that runs pods on this machine."""
    subprocess.run([HEKLA, "install", "--kubeconfig", plane.kubeconfig], check=True, timeout=60, capture_output=True)
    commands = {
        "controllers": ["controllers"],
        "scheduler": ["scheduler"],
        "node": [
            "node",
            "--name",
            "worker",
            "--node-cpu",
            node_cpu,
            "--data-dir",
            str(directory / "node"),
            *_tls(plane),
        ],
    }
    with contextlib.ExitStack() as stack:
        for name, command in commands.items():
            stack.enter_context(_running(name, [*command, "--kubeconfig", str(plane.kubeconfig)], directory))
        yield
    subprocess.run([HEKLA, "down", "--data-dir", str(directory / "node")], check=True, timeout=60, capture_output=True)


@contextlib.contextmanager
def _running(name: str, command: list[str], directory: Path) -> Iterator[None]:
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([HEKLA, *command], stderr=output, stdout=output, stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: _is_ready(name, process, log), seconds=60, what=f"{name} is ready")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _is_ready(name: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    text = log.read_text(errors="replace")
    if process.poll() is not None:
        raise RuntimeError(f"{name} ended:\n{text}")
    return f"{name} ready" in text


def _tls(plane: ControlPlane) -> list[str]:
    if plane.credentials is None:
        return []
    node = plane.credentials.node
    return [
        "--tls-cert-file", str(node.certificate), "--tls-private-key-file", str(node.key),
        "--client-ca-file", str(plane.credentials.ca),
    ]  # fmt: skip
