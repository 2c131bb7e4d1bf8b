"""A real Kubernetes control plane from binaries, on loopback, for as long as a test session lasts."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hekla.clock import SystemClock
from hekla.local.credentials import Credentials, ensure_credentials
from tests.eventually import eventually
from tests.ports import free_ports

_READY_SECONDS = 180.0


@dataclass(frozen=True)
class ControlPlane:
    kubeconfig: Path
    credentials: Credentials | None
    kubectl: Path
    pids: Mapping[str, int] = field(default_factory=dict)  # by the name of the program


@contextlib.contextmanager
def start_control_plane(binaries: Path, directory: Path, *, bare: bool = False) -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager; all gone when the block ends.

    A bare one has no controllers, and lets pods and nodes in as they are.
    """
    directory.mkdir(parents=True, exist_ok=True)
    credentials = ensure_credentials(directory, clock=SystemClock(), rng=secrets.SystemRandom())
    token = secrets.token_hex(16)
    (directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    _write_service_account_key(directory / "sa.key")
    client_port, peer_port, api_port, manager_port = free_ports(4)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_start(directory, "etcd", _etcd(binaries, directory, client_port, peer_port)))
        api_server = _api_server(binaries, directory, credentials, client_port, api_port)
        if bare:
            api_server.append("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
        processes.append(_start(directory, "kube-apiserver", api_server))
        kubeconfig = _write_kubeconfig(directory / "kubeconfig", api_port, token)
        eventually(
            lambda: _is_ready(api_port, token, processes), seconds=_READY_SECONDS, what="kube-apiserver is ready"
        )
        if not bare:
            manager = _controller_manager(binaries, directory, kubeconfig, manager_port)
            processes.append(_start(directory, "kube-controller-manager", manager))
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            eventually(lambda: _get(api_port, account, token) == 200, what="the default service account exists")
        pids = {Path(str(process.args[0])).name: process.pid for process in processes}  # type: ignore[index]
        yield ControlPlane(kubeconfig, credentials, binaries / "kubectl", pids)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.wait()


@contextlib.contextmanager
def start_kube_scheduler(plane: ControlPlane, directory: Path) -> Iterator[None]:
    """Kubernetes' own scheduler beside ours, for the pods that ask for it."""
    command = [str(plane.kubectl.with_name("kube-scheduler")), "--kubeconfig", str(plane.kubeconfig)]
    process = _start(directory, "kube-scheduler", [*command, "--leader-elect=false", "--secure-port=0"])
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _etcd(binaries: Path, directory: Path, client_port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(binaries / "etcd"), "--data-dir", str(directory / "etcd"),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
    ]  # fmt: skip


def _api_server(binaries: Path, directory: Path, credentials: Credentials, etcd_port: int, port: int) -> list[str]:
    return [
        str(binaries / "kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{etcd_port}",
        "--secure-port", str(port), "--bind-address", "127.0.0.1", "--cert-dir", str(directory / "certs"),
        "--service-cluster-ip-range", "10.96.0.0/16",
        "--service-account-issuer", "https://kubernetes.default.svc",
        "--service-account-key-file", str(directory / "sa.key"),
        "--service-account-signing-key-file", str(directory / "sa.key"),
        "--token-auth-file", str(directory / "tokens.csv"), "--authorization-mode", "RBAC", "--allow-privileged=true",
        "--kubelet-certificate-authority", str(credentials.ca),
        "--kubelet-client-certificate", str(credentials.kubelet_client.certificate),
        "--kubelet-client-key", str(credentials.kubelet_client.key),
        "--kubelet-preferred-address-types", "InternalIP",
        "--max-requests-inflight", "3000", "--max-mutating-requests-inflight", "1500",
        "--enable-priority-and-fairness=false",
    ]  # fmt: skip


def _controller_manager(binaries: Path, directory: Path, kubeconfig: Path, port: int) -> list[str]:
    return [
        str(binaries / "kube-controller-manager"), "--kubeconfig", str(kubeconfig),
        "--service-account-private-key-file", str(directory / "sa.key"),
        "--use-service-account-credentials=false", "--leader-elect=false",
        "--root-ca-file", str(directory / "certs" / "apiserver.crt"),
        "--controllers", "*,-nodeipam,-service-lb-controller,-cloud-node-lifecycle,-node-route-controller",
        "--secure-port", str(port), "--bind-address", "127.0.0.1", "--cert-dir", str(directory / "kcm"),
        "--kube-api-qps", "1000", "--kube-api-burst", "2000",
    ]  # fmt: skip


def _start(directory: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with (directory / f"{name}.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def _write_service_account_key(path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(encoded)


def _write_kubeconfig(path: Path, port: int, token: str) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "current-context": "real",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document))
    return path


def _get(port: int, path: str, token: str) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _is_ready(port: int, token: str, processes: list[subprocess.Popen[bytes]]) -> bool:
    dead = [process.args for process in processes if process.poll() is not None]
    if dead:
        raise RuntimeError(f"the control plane did not come up: {dead}")
    return _get(port, "/readyz", token) == 200


def find_binaries() -> Path | None:
    """Where `scripts/build-envtest` put them (it says so in HEKLA_ENVTEST)."""
    given = os.environ.get("HEKLA_ENVTEST")
    return Path(given) if given and shutil.which("kube-apiserver", path=given) else None
