"""`kubectl port-forward` to pods and Services: what listens inside answers outside."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading

import pytest

from tests.e2e.local_cluster import LocalCluster, forwarded
from tests.kubectl import needs_newer_kubectl

# Everything sent is sent back, and the end too; on the pod's own loopback, where most dashboards listen.
_ECHO = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", 7000), Echo).serve_forever()
"""
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: echo, labels: {{app: echo}}}}
spec:
  nodeName: local
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: any
      command: [python3, -c, {json.dumps(_ECHO)}]
      ports: [{{name: echo, containerPort: 7000}}]
      readinessProbe:
        exec: {{command: [python3, -c, "import socket; socket.create_connection(('127.0.0.1', 7000))"]}}
        periodSeconds: 1
        timeoutSeconds: 10
---
apiVersion: v1
kind: Service
metadata: {{name: front}}
spec: {{selector: {{app: echo}}, ports: [{{port: 80, targetPort: echo}}]}}
"""


@pytest.fixture(scope="module")
def echo(cluster: LocalCluster) -> LocalCluster:
    cluster.kubectl("apply", "-f", "-", stdin=POD)
    cluster.kubectl("wait", "pod/echo", "--for=condition=Ready", "--timeout=60s")
    return cluster


def say(port: int, data: bytes) -> bytes:
    """What comes back until the other side ends, which it does when we have."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        sending = threading.Thread(target=_send, args=(connection, data))
        sending.start()
        heard = bytearray()
        while piece := connection.recv(65536):
            heard += piece
        sending.join()
        return bytes(heard)


def _send(connection: socket.socket, data: bytes) -> None:
    """All of it and the end. Whether it has arrived is for who listens: the other side may have gone already."""
    with contextlib.suppress(OSError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("websockets", [True, False])
@pytest.mark.parametrize(("what", "port"), [("pod/echo", 7000), ("service/front", 80)])
def test_bytes_go_in_and_come_back(echo: LocalCluster, what: str, port: int, websockets: bool) -> None:
    data = os.urandom(2 << 20)
    with forwarded(echo, what, port, websockets=websockets) as local:
        assert say(local, data) == data
        assert say(local, b"again") == b"again"


def test_many_connections_at_once_do_not_mix(echo: LocalCluster) -> None:
    said = [os.urandom(200_000) for _ in range(8)]
    heard: dict[int, bytes] = {}
    with forwarded(echo, "pod/echo", 7000) as local:
        talking = [
            threading.Thread(target=lambda n=number: heard.__setitem__(n, say(local, said[n]))) for number in range(8)
        ]
        for each in talking:
            each.start()
        for each in talking:
            each.join()
    assert [heard[number] for number in range(8)] == said


@needs_newer_kubectl
def test_a_port_nobody_listens_on_is_named(echo: LocalCluster) -> None:
    command = ["kubectl", "--kubeconfig", str(echo.kubeconfig), "port-forward", "--address=127.0.0.1", "pod/echo"]
    with subprocess.Popen([*command, ":7999"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        local = int(process.stdout.readline().removeprefix("Forwarding from 127.0.0.1:").split()[0])
        # Nothing comes back; kubectl may close the connection with our words unread, which resets it.
        with contextlib.suppress(ConnectionResetError):
            assert say(local, b"hello?") == b""
        # kubectl ends by itself when it is told.
        said = process.stdout.read()
    assert "failed to connect to localhost:7999 inside the pod: connection refused" in said
