"""Ctrl-C during `hekla run`, in a real terminal: detach or cancel; a second Ctrl-C cancels; and output that floods."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import HEKLA, LocalCluster, clean_environment
from tests.eventually import eventually

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  minAvailable: 1
  tasks:
    - name: main
      replicas: 1
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers: [{name: main, image: any, command: [sh, -c, "COMMAND"]}]
"""


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not come; seen: {self.seen[-2000:]!r}"
            self.read(1.0)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait(self, seconds: float = 60.0) -> int:
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running; seen: {self.seen[-2000:]!r}"
            self.read(0.2)
        return self.process.returncode

    def read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.seen += os.read(self._master, 1 << 16).decode(errors="replace")


@contextlib.contextmanager
def terminal(*command: str | Path, **variables: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    environment = {**clean_environment(), "TERM": "xterm", "COLUMNS": "100", "LINES": "30", **variables}
    process = subprocess.Popen(
        [HEKLA, *command], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        preexec_fn=_take_terminal,
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C means a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("NAME", "asked").replace("COMMAND", "echo begun; sleep 600"))
    return path


def test_a_second_ctrl_c_cancels_the_job(cluster: LocalCluster, job: Path) -> None:
    with terminal("run", job, "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("[d]etach")
        screen.type("\x03")
        assert screen.wait() == 130
    assert "cancelled" in screen.seen
    eventually(lambda: "asked" not in cluster.names("vcjob"))


def test_ctrl_c_again_and_again_leaves_nothing_of_a_run_behind(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with terminal("run", job, XDG_STATE_HOME=str(tmp_path), TMPDIR=str(folder)) as screen:
        screen.wait_for("Starting a cluster")
        for _ in range(20):
            screen.type("\x03")
            screen.read(0.01)
        assert screen.wait() == 130, screen.seen
    assert not list(folder.iterdir())


def test_detaching_leaves_the_job_running(cluster: LocalCluster, job: Path) -> None:
    with terminal("run", job, "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("[d]etach")
        screen.type("d\n")
        assert screen.wait() == 130
    # The container's first words may be seen before the Job's status says that it runs.
    cluster.wait_for("vcjob/asked", ".status.state.phase", "Running")
    cluster.hekla("job", "delete", "asked")
    eventually(lambda: not [name for name in cluster.names("pod") if "asked" in name])


@pytest.mark.parametrize("keys", ["\n", "\x04"], ids=["Enter", "Ctrl-D"])
def test_who_only_presses_enter_loses_nothing(cluster: LocalCluster, job: Path, keys: str) -> None:
    with terminal("run", job, "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("[d]etach")
        screen.type(keys)
        assert screen.wait() == 130
    assert "asked goes on" in screen.seen
    cluster.wait_for("vcjob/asked", ".status.state.phase", "Running")
    cluster.hekla("job", "delete", "asked")
    eventually(lambda: not [name for name in cluster.names("pod") if "asked" in name])


def test_what_is_no_answer_is_asked_again(cluster: LocalCluster, job: Path) -> None:
    with terminal("run", job, "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("[d]etach")
        for count, word in enumerate(("n", "y", "dx"), start=2):
            screen.type(f"{word}\n")
            eventually(lambda count=count: screen.read(0.05) or screen.seen.count("d or c, then Enter:") == count)
        assert "asked" in cluster.names("vcjob")
        screen.type("C\n")
        assert screen.wait() == 130
    assert "cancelled" in screen.seen
    eventually(lambda: "asked" not in cluster.names("vcjob"))


def test_a_flood_of_output_neither_stalls_nor_deafens(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "flood.yaml"
    path.write_text(JOB.replace("NAME", "flood").replace("COMMAND", "seq 1 50000; sleep 600"))
    with terminal("run", path, "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("50000")
        screen.type("\x03")
        screen.wait_for("[d]etach")
        screen.type("c\n")
        assert screen.wait() == 130
    eventually(lambda: "flood" not in cluster.names("vcjob"))


def test_logs_are_followed_across_a_killed_api_server(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "steady.yaml"
    path.write_text(
        JOB.replace("NAME", "steady").replace("COMMAND", "for i in 1 2 3 4 5 6 7 8; do echo n$i; sleep 1; done")
    )
    cluster.hekla("run", path, "--detach")
    with terminal("logs", "-f", "steady", "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("n2")
        os.kill(cluster.components()["apiserver"]["pid"], 9)
        screen.wait_for("n8")
    lines = [line.rpartition("| ")[2] for line in screen.seen.splitlines() if " | n" in line]
    assert lines == [f"n{index}" for index in range(1, 9)]
    cluster.hekla("job", "delete", "steady")


def test_who_waits_for_a_first_line_hears_what_the_job_waits_for(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "vast.yaml"
    asking = JOB.replace("image: any", "image: any, resources: {requests: {cpu: 4k}}")
    path.write_text(asking.replace("NAME", "vast").replace("COMMAND", "true"))
    cluster.hekla("run", path, "--detach")
    with terminal("logs", "-f", "vast", "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("vast is Pending: NotEnoughResources: cpu: 4k asked")
        cluster.hekla("job", "delete", "vast")


def test_who_waits_for_a_first_line_hears_what_goes_wrong(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "volume.yaml"
    absent = "spec:\n  volumes: [{mountPath: /data, volumeClaimName: absent}]\n"
    path.write_text(JOB.replace("spec:\n", absent, 1).replace("NAME", "claims").replace("COMMAND", "true"))
    cluster.hekla("run", path, "--detach")
    with terminal("logs", "-f", "claims", "--data-dir", cluster.data_dir) as screen:
        screen.wait_for("warning: PVCError")
        cluster.hekla("job", "delete", "claims")
