"""`kubectl attach` and `kubectl run -it`: looking at a container while it runs, and speaking to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.e2e.terminal import in_a_terminal
from tests.eventually import eventually
from tests.kubectl import needs_newer_kubectl

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeName: local
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: any, CONTAINER}]
"""
LISTENER = """stdin: true, stdinOnce: true, command: [sh, -c, "cat; echo all heard >&2"]"""
_SHELL = """stdin: true, tty: true, command: [sh]"""
_SPEAKER = """command: [sh, -c, "while [ ! -e /done ]; do echo tick; echo tock >&2; sleep 0.1; done"]"""


@pytest.fixture
def kubectl(cluster: LocalCluster) -> Iterator[list[str]]:
    yield ["kubectl", "--kubeconfig", str(cluster.kubeconfig)]
    cluster.kubectl("delete", "pod", "--all", "--grace-period=0", "--force")


def start(cluster: LocalCluster, name: str, container: str) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=POD.replace("NAME", name).replace("CONTAINER", container))
    cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_what_is_said_reaches_the_container_and_its_input_ends_with_the_client(
    cluster: LocalCluster, kubectl: list[str], websockets: str
) -> None:
    start(cluster, "listener", LISTENER)
    data = os.urandom(1 << 20).hex(b"\n", 100).encode() + b"\n"
    environment = {**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets}
    done = subprocess.run(
        [*kubectl, "attach", "-i", "listener"], input=data, capture_output=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == data
    assert b"all heard" in done.stderr
    cluster.wait_for("pod/listener", ".status.phase", "Succeeded")
    assert cluster.kubectl("logs", "listener").replace("all heard\n", "") == data.decode()


def test_a_container_with_a_terminal_is_used_as_one_and_can_be_left(cluster: LocalCluster, kubectl: list[str]) -> None:
    start(cluster, "shell", _SHELL)
    with in_a_terminal([*kubectl, "attach", "-it", "shell"]) as terminal:
        terminal.resize(30, 99)
        terminal.type("tty; echo first vis''it; until [ \"$(stty size)\" = '30 99' ]; do :; done; echo res''ized\n")
        terminal.until("/dev/pts/0")
        terminal.until("resized")
    # The one who left did not take the shell along.
    with in_a_terminal([*kubectl, "attach", "-it", "shell"]) as terminal:
        terminal.type("echo second vis''it; exit 4\n")
        terminal.until("second visit")
        assert terminal.exit_code() == 0
    code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    assert eventually(lambda: cluster.kubectl("get", "pod", "shell", "-o", code)) == "4"


def test_run_it_gives_a_shell_and_cleans_up(cluster: LocalCluster, kubectl: list[str]) -> None:
    command = [*kubectl, "run", "-it", "--rm", "visitor", "--image=any", "--restart=Never", "--command", "--", "sh"]
    with in_a_terminal(command) as terminal:
        # Typed until it is heard: what is typed before the container runs is nobody's.
        terminal.type("\n")
        terminal.until("# ")
        terminal.type("hostname; exit 3\n")
        terminal.until("visitor")
        assert terminal.exit_code() == 3
    assert eventually(lambda: "visitor" not in cluster.names("pod"))


@needs_newer_kubectl
def test_both_outputs_are_seen_by_one_who_only_looks(cluster: LocalCluster, kubectl: list[str]) -> None:
    start(cluster, "speaker", _SPEAKER)
    looking = subprocess.Popen([*kubectl, "attach", "speaker"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert looking.stdout is not None
    assert looking.stderr is not None
    assert looking.stdout.readline() == b"tick\n"
    assert b"tock\n" in [looking.stderr.readline() for _ in range(3)]
    cluster.kubectl("exec", "speaker", "--", "touch", "/done")
    assert looking.wait(60) == 0
    looking.stdout.close()
    looking.stderr.close()


def test_what_does_not_run_cannot_be_attached_to(cluster: LocalCluster, kubectl: list[str]) -> None:
    stopped = POD.replace("NAME", "over").replace("CONTAINER", 'command: ["true"]')
    cluster.kubectl("apply", "-f", "-", stdin=stopped)
    cluster.wait_for("pod/over", ".status.phase", "Succeeded")
    assert "completed" in cluster.kubectl("attach", "over", check=False)
