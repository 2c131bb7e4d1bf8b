"""Our components as their own processes against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hekla.admission.server import SERVICES, webhook_configurations
from hekla.client.kubeconfig import client_from_files
from hekla.local.bootstrap import register_webhooks
from tests.cluster.control_plane import ControlPlane
from tests.eventually import eventually
from tests.ports import free_port

HEKLA = Path(sys.executable).with_name("hekla")


@contextlib.contextmanager
def start_components(
    plane: ControlPlane,
    directory: Path,
    *,
    node: Sequence[str] = ("--node-cpu", "4"),
    accounts: Mapping[str, Path] | None = None,
) -> Iterator[None]:
    """CRDs, controllers, scheduler and a node that runs pods on this machine (or what `node` says it shall be).

    `accounts` are the kubeconfigs of the components; without them all act as the administrator.
    """
    subprocess.run([HEKLA, "install", "--kubeconfig", plane.kubeconfig], check=True, timeout=180, capture_output=True)
    data = directory / "node"
    commands = {
        "controllers": ["controllers"],
        "scheduler": ["scheduler"],
        "node": ["node", "--name", "worker", "--data-dir", str(data), *_tls(plane), *node],
    }
    with contextlib.ExitStack() as stack:
        for name, command in commands.items():
            kubeconfig = accounts[name] if accounts is not None else plane.kubeconfig
            stack.enter_context(running(name, [*command, "--kubeconfig", str(kubeconfig)], directory))
        yield
    subprocess.run([HEKLA, "down", "--data-dir", str(data)], check=True, timeout=180, capture_output=True)


@contextlib.contextmanager
def start_webhook(
    plane: ControlPlane, directory: Path, *flags: str, account: Path | None = None, able: bool = True
) -> Iterator[None]:
    """Admission over HTTPS, registered with the API server until the block ends.

    With `account`, a kubeconfig of its own, it cannot register itself; that is done for it. One that is not `able` to
    answer reviews is not waited for.
    """
    if plane.credentials is None:
        raise RuntimeError("the webhook needs a control plane of the tests' own: unset KUBECONFIG")
    port = free_port()
    node = plane.credentials.node
    command = [
        "webhook", "--kubeconfig", str(account or plane.kubeconfig), "--port", str(port),
        "--tls-cert-file", str(node.certificate), "--tls-private-key-file", str(node.key),
        "--ca-cert-file", str(plane.credentials.ca), *flags,
    ]  # fmt: skip
    url = f"https://127.0.0.1:{port}"
    if account is None:
        command += ["--webhook-url", url]
    kubectl: list[str | Path] = [plane.kubectl, "--kubeconfig", plane.kubeconfig]
    with running("webhook", command, directory, ready="webhook on port"):
        try:
            if account is not None:
                asyncio.run(_register(plane, url))
            if able:
                eventually(lambda: _is_asked(kubectl, wanted=True), what="the API server asks the webhook")
            yield
        finally:
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
                subprocess.run([*kubectl, "delete", kind, "--all"], capture_output=True, check=True)
            eventually(lambda: _is_asked(kubectl, wanted=False), what="the API server asks it no more")


_PROBE = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: probe}
spec:
  minAvailable: MIN
  tasks: [{name: main, replicas: 2, template: {spec: {containers: [{name: main, image: any}]}}}]
"""


def _is_asked(kubectl: list[str | Path], *, wanted: bool) -> bool:
    """Whether what the webhook gives and what it refuses are (not) there: the API server hears of each by itself."""
    create = [*kubectl, "create", "--dry-run=server", "-o", "jsonpath={.spec.tasks[0].minAvailable}", "-f", "-"]
    good, bad = (
        subprocess.run(create, input=_PROBE.replace("MIN", minimum), capture_output=True, text=True)
        for minimum in ("2", "9")
    )
    assert good.returncode == 0, good.stderr
    return ("2" in good.stdout, "should not be greater" in bad.stderr) == (wanted, wanted)


async def _register(plane: ControlPlane, url: str) -> None:
    assert plane.credentials is not None
    paths = {service.path for service in SERVICES} - {"/pods/mutate"}
    wanted = webhook_configurations(plane.credentials.ca.read_bytes(), lambda path: {"url": url + path}, paths)
    async with client_from_files([plane.kubeconfig]) as client:
        await register_webhooks(client, wanted)


@contextlib.contextmanager
def running(name: str, command: list[str], directory: Path, *, ready: str = "") -> Iterator[None]:
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([HEKLA, *command], stderr=output, stdout=output, stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: _is_ready(name, process, log, ready or f"{name} ready"), seconds=60, what=f"{name} is ready")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _is_ready(name: str, process: subprocess.Popen[bytes], log: Path, word: str) -> bool:
    text = log.read_text(errors="replace")
    if process.poll() is not None:
        raise RuntimeError(f"{name} ended:\n{text}")
    return word in text


def _tls(plane: ControlPlane) -> list[str]:
    if plane.credentials is None:
        return []
    node = plane.credentials.node
    return [
        "--tls-cert-file", str(node.certificate), "--tls-private-key-file", str(node.key),
        "--client-ca-file", str(plane.credentials.ca),
    ]  # fmt: skip
