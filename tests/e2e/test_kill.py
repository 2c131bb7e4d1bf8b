"""kill -9 of each component, then of all, in the middle of a job: it ends as it should, and nothing runs twice."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hekla.local.layout import Layout
from hekla.node.switch import LOCK as SWITCH_LOCK
from tests.e2e.local_cluster import HEKLA, LocalCluster, clean_environment, mounts_of, processes_of, running
from tests.eventually import eventually
from tests.node.test_switch import waits_for

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: steady}
spec:
  minAvailable: 3
  plugins: {env: [], svc: []}
  tasks:
    - name: worker
      replicas: 3
      policies: [{event: TaskCompleted, action: CompleteJob}]
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: any
              command: [sh, -c, "echo begun; until [ -e /go ]; do sleep 0.1; done; echo ended"]
"""


def submit(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=JOB)
    eventually(lambda: phases(cluster) == ["Running"] * 3, what="three pods run")


def phases(cluster: LocalCluster) -> list[str]:
    return [pod["status"]["phase"] for pod in cluster.get("pod")["items"]]


def release(cluster: LocalCluster) -> None:
    """Let the pods finish: they wait for a file in their own file systems."""
    for name in cluster.names("pod"):
        eventually(lambda name=name: is_told(cluster, name), what=f"{name} is told")


def is_told(cluster: LocalCluster, name: str) -> bool:
    """A container that is told may end before the command that told it, and takes it along."""
    over = cluster.get("pod", name)["status"]["phase"] == "Succeeded"
    return over or cluster.kubectl("exec", name, "--", "touch", "/go") == ""


def check_the_end(cluster: LocalCluster, uids: set[str]) -> None:
    release(cluster)
    cluster.wait_for("vcjob/steady", ".status.state.phase", "Completed")
    pods = cluster.get("pod")["items"]
    assert {pod["metadata"]["uid"] for pod in pods} == uids, "a pod was replaced"
    for pod in pods:
        log = cluster.kubectl("logs", pod["metadata"]["name"])
        assert log.split() == ["begun", "ended"], log
        state = pod["status"]["containerStatuses"][0]
        assert (state["restartCount"], state["state"]["terminated"]["exitCode"]) == (0, 0)
    assert cluster.get("vcjob", "steady")["status"].get("retryCount", 0) == 0


def uids_of(cluster: LocalCluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.get("pod")["items"]}


def _is_back(cluster: LocalCluster, component: str, killed: int) -> bool:
    state = cluster.components()[component]
    return state["ready"] and state["pid"] not in (0, killed)


@pytest.mark.parametrize("component", ["apiserver", "controllers", "scheduler", "node-local"])
def test_one_component_is_killed(component: str, data_dir: Path) -> None:
    cluster = LocalCluster(data_dir)
    with running(data_dir):
        submit(cluster)
        uids = uids_of(cluster)
        killed = cluster.components()[component]["pid"]
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: _is_back(cluster, component, killed), what="it is started again")
        check_the_end(cluster, uids)
    assert not processes_of(data_dir)
    assert not mounts_of(data_dir)


def test_everything_is_killed_and_started_again(data_dir: Path) -> None:
    cluster = LocalCluster(data_dir)
    with running(data_dir) as supervisor:
        submit(cluster)
        uids = uids_of(cluster)
        pids = [part["pid"] for part in cluster.components().values()]
        for pid in [supervisor.pid, *pids]:
            os.kill(pid, signal.SIGKILL)
        supervisor.wait(60)
    with running(data_dir):
        check_the_end(cluster, uids)
    assert not processes_of(data_dir)
    assert not mounts_of(data_dir)


def test_status_and_down_tell_what_a_killed_cluster_left(data_dir: Path) -> None:
    cluster = LocalCluster(data_dir)
    with running(data_dir) as supervisor:
        submit(cluster)
        supervisor.kill()
        supervisor.wait()
        told = cluster.hekla("status", check=False)
        assert (told.returncode, "was killed; 3 pods of it still running" in told.stdout) == (1, True), told.stdout
        assert "hekla up" in told.stdout
        ended = cluster.hekla("down").stdout
        assert "had been killed" in ended
        assert "3 pods" in ended
        assert "No cluster is running" in cluster.hekla("status", check=False).stdout
        assert not mounts_of(data_dir)


@contextlib.contextmanager
def run_of(job: str, folder: Path, *flags: str | Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "job.yaml").write_text(job)
    command = [HEKLA, "run", folder / "job.yaml", *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment() | variables) as run:
        try:
            yield run
        finally:
            run.kill()


def kill_all(run: subprocess.Popen[bytes], cluster: LocalCluster) -> None:
    """But for what is to clear up after them."""
    for pid in (run.pid, cluster.supervisor(), *(part["pid"] for part in cluster.components().values())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_nothing_of_a_run_outlives_it_though_all_its_processes_are_killed(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with run_of(JOB, tmp_path, TMPDIR=str(folder), XDG_STATE_HOME=str(tmp_path)) as run:
        cluster = LocalCluster(eventually(lambda: next(folder.iterdir(), None), what="a folder of its own"))
        eventually(cluster.kubeconfig.exists, what="a kubeconfig")
        eventually(lambda: phases(cluster) == ["Running"] * 3, what="three pods run")
        kill_all(run, cluster)
    eventually(lambda: processes_of(folder) == [], what="nothing is left of it")
    assert not mounts_of(folder)
    assert not list(folder.iterdir())


def test_nothing_of_a_run_outlives_it_that_was_only_just_being_started(tmp_path: Path, data_dir: Path) -> None:
    layout = Layout(data_dir)
    layout.prepare()
    cluster = LocalCluster(data_dir)
    with (layout.nodes / SWITCH_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that the pods' network comes no further than this
        with run_of(JOB, tmp_path, "--data-dir", data_dir) as run:
            eventually(lambda: waits_for(layout.nodes / SWITCH_LOCK), what="a switch waits for its turn")
            os.kill(eventually(cluster.supervisor), signal.SIGKILL)
            run.kill()
        eventually(lambda: processes_of(data_dir) == [], what="nothing is left of it")


def test_where_a_run_was_killed_a_cluster_is_started_at_once(tmp_path: Path, data_dir: Path) -> None:
    cluster = LocalCluster(data_dir)
    with run_of(JOB, tmp_path, "--data-dir", data_dir) as run:
        eventually(cluster.kubeconfig.exists, what="a kubeconfig")
        eventually(lambda: phases(cluster) == ["Running"] * 3, what="three pods run")
        kill_all(run, cluster)
    with running(data_dir):
        eventually(lambda: phases(cluster) == ["Failed"] * 3, what="what ran is told to have ended")
        cluster.kubectl("delete", "vcjob", "steady")
        eventually(lambda: phases(cluster) == [], what="the pods are gone")
        submit(cluster)
        check_the_end(cluster, uids_of(cluster))
    assert not processes_of(data_dir)
