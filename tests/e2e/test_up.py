"""`hekla up` meets what people have lying about: other folders, other kubeconfigs, taken ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hekla.node.cleanup import end_pod, running_pods
from hekla.node.directory import all_pods
from hekla.node.kept_logs import jobs_with_logs
from tests.e2e.local_cluster import HEKLA, clean_environment, processes_of, running, start_cluster
from tests.eventually import eventually
from tests.node.test_kept_logs import ended_pod


def hekla(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [HEKLA, *arguments], capture_output=True, text=True, timeout=100, env=clean_environment(), cwd=cwd
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "This is a bug" not in done.stderr
    return done


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir(mode=0o755)
    (folder / "cat.jpg").write_text("miaow")
    done = hekla("up", "--data-dir", folder, cwd=tmp_path)
    assert done.returncode == 1
    assert "holds other things already" in done.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [entry.name for entry in folder.iterdir()] == ["cat.jpg"]


def test_somebody_elses_kubeconfig_is_not_written_over(tmp_path: Path) -> None:
    precious = tmp_path / "config"
    precious.write_text("clusters: [{name: production}]\n")
    done = hekla("up", "--data-dir", tmp_path / "data", "--kubeconfig", precious, "--detach", cwd=tmp_path)
    assert done.returncode == 1
    assert precious.read_text() == "clusters: [{name: production}]\n"


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = hekla("up", "--data-dir", tmp_path / "data", "--port", port, "--detach", cwd=tmp_path)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--port", "99999"),
        ("--nodes", "-1"),
        ("--node-gpus", "-3"),
        ("--node-gpu-memory", "5"),
        ("--node-cpu", "lots"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(tmp_path: Path, flags: tuple[str, str]) -> None:
    done = hekla("up", "--data-dir", tmp_path / "data", *flags, cwd=tmp_path)
    assert done.returncode == 64
    assert flags[0] in done.stderr


def test_odd_but_legal_data_dirs_work(tmp_path: Path) -> None:
    for odd in ("relative", "with # and space"):
        assert hekla("up", "--data-dir", odd, "--detach", cwd=tmp_path).returncode == 0
        assert hekla("status", "--data-dir", odd, cwd=tmp_path).returncode == 0
        assert hekla("down", "--data-dir", odd, cwd=tmp_path).returncode == 0


def test_down_where_nothing_is_says_so(tmp_path: Path) -> None:
    done = hekla("down", "--data-dir", tmp_path / "nowhere", cwd=tmp_path)
    assert done.returncode == 0
    assert "No cluster was running" in done.stdout


def test_status_tells_that_the_api_server_cannot_start(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "data", "--nodes=0", "--simulated-nodes=1") as cluster:
        for path in (tmp_path / "data").glob("state.db*"):
            path.unlink()
        (tmp_path / "data/state.db").write_bytes(b"no database" * 1000)
        os.kill(cluster.components()["apiserver"]["pid"], signal.SIGKILL)
        eventually(lambda: cluster.components()["apiserver"]["restarts"] > 2)
        done = hekla("status", "--data-dir", tmp_path / "data", cwd=tmp_path)
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("apiserver")] == ["Starting"]
    assert "simulated-0" not in done.stdout


GATE = "scheduling.volcano.sh/queue-allocation-gate"
NARROW_QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: narrow}
spec: {weight: 1, capability: {cpu: 1}}
"""
PAIR = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: pair}}
spec:
  queue: narrow
  minAvailable: 1
  schedulerName: volcano
  tasks:
  - name: t
    replicas: 2
    template:
      metadata: {{annotations: {{{GATE}: "true"}}}}
      spec: {{containers: [{{name: main, image: any, resources: {{requests: {{cpu: 1}}}}}}]}}
"""


def test_pods_wait_at_the_gate_of_their_queue_where_that_is_switched_on(tmp_path: Path) -> None:
    gates = "--feature-gates=SchedulingGatesQueueAdmission=true"
    with start_cluster(tmp_path / "data", "--nodes=0", "--simulated-nodes=1", gates) as cluster:
        cluster.kubectl("apply", "-f", "-", stdin=NARROW_QUEUE)
        cluster.wait_for("queue/narrow", ".status.state", "Open")
        cluster.kubectl("apply", "-f", "-", stdin=PAIR)
        cluster.wait_for("pod/pair-t-0", ".status.phase", "Running")
        assert "schedulingGates" not in cluster.get("pod/pair-t-0")["spec"]
        assert cluster.get("pod/pair-t-1")["spec"]["schedulingGates"] == [{"name": GATE}]


def test_nodes_that_are_told_to_write_warnings_only_write_nothing_else(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "data", "--node-events", "warnings") as cluster:
        for name, program in (("fine", "true"), ("fails", "false"), ("bad", "no-such-program")):
            container = {"name": "main", "image": "any", "command": [program]}
            spec = {"restartPolicy": "Never", "containers": [container]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
            cluster.wait_for(f"pod/{name}", ".status.phase", "Succeeded" if name == "fine" else "Failed")

        def told() -> list[tuple[str, str]]:
            events = [each for each in cluster.get("events")["items"] if each["source"]["component"] == "kubelet"]
            return [(each["involvedObject"]["name"], each["type"]) for each in events]

        eventually(lambda: bool(told()), what="the node has warned")
        assert told() == [("bad", "Warning")]


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> None:
    with (folder / "everything").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize("detached", [(), ("--detach",)])
def test_a_full_disk_is_named(tmp_path: Path, detached: tuple[str, ...]) -> None:
    with small_disk(tmp_path / "small", "64k") as folder:
        done = hekla("up", "--data-dir", folder / "data", *detached, cwd=tmp_path)
    assert done.returncode == 1
    assert f"error: {folder / 'data'}" in done.stderr
    assert "No space left on device" in done.stderr
    assert processes_of(folder) == []


def test_on_a_disk_that_has_filled_up_everything_is_stopped_all_the_same(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "32m") as folder:
        with running(folder / "data") as up:
            assert any("hekla.node.switch" in one for one in processes_of(folder))
            fill(folder)
            up.send_signal(signal.SIGINT)
            assert up.wait(60) == 0
        assert processes_of(folder) == []


STEADY = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: steady}
spec:
  minAvailable: 2
  schedulerName: volcano
  tasks:
  - name: t
    replicas: 2
    template:
      spec: {restartPolicy: Never, containers: [{name: main, image: any, command: [sleep, "3600"]}]}
"""


def test_nodes_that_a_later_start_has_not_are_gone_with_what_ran_on_them(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with start_cluster(data_dir, "--nodes=2") as cluster:
        cluster.kubectl("apply", "-f", "-", stdin=STEADY)
        cluster.wait_for("vcjob/steady", ".status.running", "2")
        os.kill(cluster.supervisor(), signal.SIGKILL)
    nodes = data_dir / "nodes"
    # A node of another cluster has been at work here, too; and one of ours has left what nobody wants any more.
    ended_pod(nodes, "elsewhere", owner={"uid": "theirs"}, node="laptop")
    end_pod(ended_pod(nodes, "kept-elsewhere", owner={"uid": "theirs"}, node="laptop"))
    ended_pod(nodes, "unwanted", owner={"uid": "ours"}, node="local-0")
    with start_cluster(data_dir) as cluster:
        assert cluster.names("node") == ["local"]
        assert running_pods(nodes) == []
        cluster.wait_for("vcjob/steady", ".status.state.phase", "Failed")
        why = cluster.hekla("why", "steady").stdout
        assert "NodeShutdown" in why
        assert "The cluster was started again without node local-" in why
        eventually(lambda: "ours" not in jobs_with_logs(nodes) and len(all_pods(nodes)) == 3, what="one has gone")
        assert {pod.owner()["node"] for pod in all_pods(nodes)} == {"local-0", "local-1", "laptop"}
        cluster.kubectl("delete", "vcjob/steady")
        eventually(lambda: cluster.names("pod") == [])
        eventually(lambda: len(all_pods(nodes)) == len(jobs_with_logs(nodes)) == 1, seconds=30, what="theirs are left")
        assert [pod.uid for pod in all_pods(nodes)] == ["elsewhere"]
        assert jobs_with_logs(nodes) == ["theirs"]
