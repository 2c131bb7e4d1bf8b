"""`kubectl exec` and `kubectl cp` into a running pod, with and without a terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.e2e.terminal import in_a_terminal

POD = """
apiVersion: v1
kind: Pod
metadata: {name: house}
spec:
  nodeName: local
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: any
      command: [sleep, "600"]
      workingDir: /var
      env: [{name: COLOUR, value: green}]
    - {name: side, image: any, command: [sleep, "600"]}
"""


@pytest.fixture(scope="module")
def house(cluster: LocalCluster) -> Iterator[LocalCluster]:
    cluster.kubectl("apply", "-f", "-", stdin=POD)
    cluster.kubectl("wait", "pod/house", "--for=condition=Ready", "--timeout=60s")
    yield cluster
    cluster.kubectl("delete", "pod", "house")


def run(house: LocalCluster, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = ["kubectl", "--kubeconfig", str(house.kubeconfig), "exec", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60)


def test_a_command_runs_where_and_as_the_container_does(house: LocalCluster) -> None:
    done = run(house, "house", "-c", "main", "--", "sh", "-c", "hostname; pwd; echo $COLOUR; cat /proc/1/cmdline")
    assert done.stdout.split(b"\n")[:3] == [b"house", b"/var", b"green"], done
    assert b"sleep" in done.stdout


def test_its_exit_code_and_both_outputs_come_back(house: LocalCluster) -> None:
    done = run(house, "house", "-c", "side", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert done.returncode == 7
    assert done.stdout == b"out\n"
    assert done.stderr.startswith(b"err\n")


def test_standard_input_goes_in_whole(house: LocalCluster) -> None:
    data = os.urandom(3 << 20)
    done = run(house, "-i", "house", "-c", "main", "--", "cat", stdin=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_a_command_that_is_not_there_is_named(house: LocalCluster) -> None:
    done = run(house, "house", "-c", "main", "--", "no-such-program")
    assert done.returncode != 0
    assert b'exec: "no-such-program": executable file not found in $PATH' in done.stderr


def test_children_left_behind_do_not_keep_the_session_open(house: LocalCluster) -> None:
    done = run(house, "house", "-c", "main", "--", "sh", "-c", "sleep 60 & echo done")
    assert done.stdout == b"done\n"


def test_files_are_copied_in_and_out(house: LocalCluster, tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    (tmp_path / "here").write_bytes(data)
    house.kubectl("cp", str(tmp_path / "here"), "house:/tmp/there", "-c", "main")
    house.kubectl("cp", "house:/tmp/there", str(tmp_path / "back"), "-c", "main")
    assert (tmp_path / "back").read_bytes() == data


def test_a_person_at_a_terminal_gets_one_that_has_its_size(house: LocalCluster) -> None:
    command = ["kubectl", "--kubeconfig", str(house.kubeconfig), "exec", "-it", "house", "-c", "main", "--", "sh"]
    with in_a_terminal(command) as terminal:
        terminal.type("tty; echo s''aid\n")
        terminal.until("/dev/pts/")
        terminal.until("said")
        terminal.resize(33, 111)
        # The size travels by itself: asked for until it has arrived.
        terminal.type("until [ \"$(stty size)\" = '33 111' ]; do :; done; echo res''ized; exit 5\n")
        terminal.until("resized")
        assert terminal.exit_code() == 5


def test_ctrl_c_ends_what_runs_in_the_terminal_and_not_the_shell(house: LocalCluster) -> None:
    command = ["kubectl", "--kubeconfig", str(house.kubeconfig), "exec", "-it", "house", "-c", "main", "--", "sh"]
    with in_a_terminal(command) as terminal:
        # Told by what is to be ended, once it has the terminal: the shell gives it away only after starting it.
        terminal.type("PS1=n''ext; sh -c 'echo beg\"\"un; exec sleep 600'\n")
        terminal.until("begun")
        terminal.type("\x03")
        # What is typed before the shell asks for it again, an interrupt may take away.
        terminal.until("next")
        terminal.type("echo sur''vived; exit 0\n")
        terminal.until("survived")
        assert terminal.exit_code() == 0


def test_clients_that_speak_the_older_protocol_are_understood(house: LocalCluster) -> None:
    """SPDY: kubectl before 1.30, and client libraries of that time."""
    old = {**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
    data = os.urandom(3 << 20)
    command = ["kubectl", "--kubeconfig", str(house.kubeconfig), "exec", "-i", "house", "-c", "main", "--"]
    done = subprocess.run([*command, "cat"], input=data, capture_output=True, timeout=60, env=old)
    assert (done.returncode, done.stdout == data) == (0, True), done.stderr
    failing = ["sh", "-c", "echo out; echo err >&2; exit 7"]
    done = subprocess.run([*command, *failing], capture_output=True, timeout=60, env=old)
    assert (done.returncode, done.stdout) == (7, b"out\n")
    assert done.stderr.startswith(b"err\n")


def test_without_the_token_nothing_is_run(house: LocalCluster) -> None:
    server = house.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    path = "/api/v1/namespaces/default/pods/house/exec?command=true&container=main&stdout=true"
    upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"]
    headers = [word for each in upgrade for word in ("-H", each)]
    done = subprocess.run(["curl", "-skw", "%{http_code}", *headers, server + path], capture_output=True, timeout=60)
    assert done.stdout.endswith(b"401"), done.stdout
