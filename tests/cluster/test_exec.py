"""`kubectl exec` through a real kube-apiserver, which passes the websocket on to our node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.components import start_components
from tests.cluster.control_plane import ControlPlane
from tests.e2e.test_exec import POD

pytestmark = pytest.mark.cluster


def test_commands_and_files_go_in_and_out(control_plane: ControlPlane, tmp_path: Path) -> None:
    def kubectl(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [control_plane.kubectl, "--kubeconfig", control_plane.kubeconfig, *arguments]
        return subprocess.run(command, capture_output=True, timeout=90, input=stdin)

    with start_components(control_plane, tmp_path):
        kubectl("apply", "-f", "-", stdin=POD.replace("local", "worker").encode())
        assert kubectl("wait", "pod/house", "--for=condition=Ready", "--timeout=60s").returncode == 0
        done = kubectl("exec", "house", "-c", "main", "--", "sh", "-c", "hostname; exit 7")
        assert (done.stdout, done.returncode) == (b"house\n", 7), done
        data = os.urandom(1 << 20)
        assert kubectl("exec", "-i", "house", "-c", "side", "--", "cat", stdin=data).stdout == data
        (tmp_path / "here").write_bytes(data)
        kubectl("cp", str(tmp_path / "here"), "house:/tmp/there", "-c", "main")
        kubectl("cp", "house:/tmp/there", str(tmp_path / "back"), "-c", "main")
        assert (tmp_path / "back").read_bytes() == data
        assert kubectl("delete", "pod", "house").returncode == 0
