"""exec, cp, attach and port-forward through a real kube-apiserver, which passes the connection on to our node."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cluster.components import start_components
from tests.cluster.control_plane import ControlPlane
from tests.e2e.test_exec import POD

pytestmark = pytest.mark.cluster

_OTHERS = """
---
apiVersion: v1
kind: Pod
metadata: {name: listener}
spec:
  nodeName: worker
  restartPolicy: Never
  containers: [{name: main, image: any, stdin: true, stdinOnce: true, command: [cat]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: worker
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: any
      command: [python3, -m, http.server, --bind, 127.0.0.1, "8000"]
      readinessProbe:
        exec: {command: [python3, -c, "import socket; socket.create_connection(('127.0.0.1', 8000))"]}
        periodSeconds: 1
        timeoutSeconds: 10
"""


# "false": the client speaks SPDY, as API servers before 1.36 do to their nodes whatever their clients speak.
@pytest.mark.parametrize("websockets", ["true", "false"])
def test_commands_files_and_connections_go_in_and_out(
    control_plane: ControlPlane, tmp_path: Path, websockets: str
) -> None:
    switches = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
    environment = {**os.environ, **dict.fromkeys(switches, websockets)}

    def kubectl(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [control_plane.kubectl, "--kubeconfig", control_plane.kubeconfig, *arguments]
        return subprocess.run(command, capture_output=True, timeout=180, input=stdin, env=environment)

    with start_components(control_plane, tmp_path):
        kubectl("apply", "-f", "-", stdin=(POD.replace("local", "worker") + _OTHERS).encode())
        assert kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=150s").returncode == 0
        done = kubectl("exec", "house", "-c", "main", "--", "sh", "-c", "hostname; exit 7")
        assert (done.stdout, done.returncode) == (b"house\n", 7), done
        data = os.urandom(1 << 20)
        assert kubectl("exec", "-i", "house", "-c", "side", "--", "cat", stdin=data).stdout == data
        (tmp_path / "here").write_bytes(data)
        kubectl("cp", str(tmp_path / "here"), "house:/tmp/there", "-c", "main")
        kubectl("cp", "house:/tmp/there", str(tmp_path / "back"), "-c", "main")
        assert (tmp_path / "back").read_bytes() == data
        done = kubectl("attach", "-i", "listener", stdin=data)
        assert (done.stdout == data, done.returncode) == (True, 0), done.stderr
        command = [control_plane.kubectl, "--kubeconfig", str(control_plane.kubeconfig), "port-forward", "web"]
        forwarding = [*command, "--address=127.0.0.1", ":8000"]
        with subprocess.Popen(forwarding, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline().removeprefix("Forwarding from 127.0.0.1:").split()[0])
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(b"GET /etc/hostname HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
            process.terminate()
        assert answer.endswith(b"\r\n\r\nweb\n"), answer
        assert kubectl("delete", "pod", "--all").returncode == 0
