"""What pods may have of the machine: `--images`, `--allow-host-path`, `--outgoing`, GPUs shared by several nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.local_cluster import HEKLA, HELLO_GANG, LocalCluster, clean_environment, start_cluster

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeName: NODE
  restartPolicy: Never
  containers:
    - name: main
      image: tool:1
      args: ["SCRIPT"]
      resources: {limits: {nvidia.com/gpu: 1}}
      volumeMounts: [{name: machine, mountPath: /machine}]
  volumes: [{name: machine, hostPath: {path: PATH}}]
"""


def start(cluster: LocalCluster, name: str, **words: object) -> None:
    text = POD.replace("NAME", name)
    for word, value in words.items():
        text = text.replace(word.upper(), str(value))
    cluster.kubectl("apply", "-f", "-", stdin=text)


def test_pods_have_what_the_flags_give_them_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("tool: {entrypoint: [sh, -c]}")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "word").write_text("hello")
    flags = ["--images", str(tmp_path / "images.yaml"), "--allow-host-path", str(tmp_path / "shown")]
    with start_cluster(tmp_path / "data", *flags, "--nodes", "2", "--node-gpus", "2", "--outgoing", "none") as cluster:
        say = "cat /machine/word; echo GPU $CUDA_VISIBLE_DEVICES"
        for node in range(2):
            start(cluster, f"on-{node}", node=f"local-{node}", script=say, path=tmp_path / "shown")
        start(cluster, "refused", node="local-0", script="true", path=tmp_path)
        said = []
        for name, phase in (("on-0", "Succeeded"), ("on-1", "Succeeded"), ("refused", "Failed")):
            cluster.wait_for(f"pod/{name}", ".status.phase", phase)
            said.append(cluster.kubectl("logs", name, check=False))
        # The nodes share the machine's devices: the second node's have numbers of their own.
        assert said[:2] == ["helloGPU 0\n", "helloGPU 2\n"]
        assert "is not among the paths" in cluster.get("pod", "refused")["status"]["message"]
        # What the machine does not allow is told on its node.
        cluster.kubectl("annotate", "node", "local-1", "hekla.dev/notes=it is small", "--overwrite")
        assert "note: it is small" in cluster.hekla("status").stdout


STARTING = [
    ("--nodes", "1"), ("--node-cpu", "8"), ("--node-memory", "8Gi"), ("--node-gpus", "1"), ("--node-gpu-memory", "10"),
    ("--simulated-nodes", "2"), ("--outgoing", "none"), ("--allow-host-path", "/etc"), ("--runtime", "podman"),
    ("--images", "/etc/passwd"),
]  # fmt: skip


def test_what_is_for_who_starts_a_cluster_is_refused_on_one_that_is_there(tmp_path: Path) -> None:
    """None is passed over silently, and the way out can be typed as it is told."""
    with start_cluster(tmp_path / "my data", "--simulated-nodes", "1", "--nodes", "0") as cluster:
        where = f"--data-dir '{cluster.data_dir}'"
        for flag in STARTING:
            done = cluster.hekla("run", HELLO_GANG, *flag, check=False)
            told = f"error: a cluster is there already: {flag[0]} is for the one who starts it"
            assert (done.returncode, done.stderr.splitlines()[0]) == (1, told)
        done = cluster.hekla("run", HELLO_GANG, "--nodes", "5", "--allow-host-path", "/etc", check=False)
        assert "--nodes and --allow-host-path are for" in done.stderr
        up = f"`hekla up --nodes 5 --allow-host-path /etc --detach {where}`"
        assert f"`hekla down {where}`" in done.stderr
        assert f"{up}, or this run again" in done.stderr
        # Who names the cluster would name it again, where nobody answers then.
        named = run_named(cluster.kubeconfig, "--nodes", "5")
        assert f"`hekla down {where}`" in named
        assert "this run again" not in named
        assert cluster.names("vcjob") == []
    assert "--kubeconfig or KUBECONFIG names" in run_named(cluster.kubeconfig, "--nodes", "5")


def run_named(kubeconfig: Path, *flags: str) -> str:
    command = [HEKLA, "run", HELLO_GANG, *flags]
    environment = {**clean_environment(), "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("text", "said"), [("tool: {entrypont: [sh]}", "unknown key entrypont"), ("tool: [", "images.yaml")]
)
def test_a_wrong_table_of_images_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    table = tmp_path / "images.yaml"
    table.write_text(text)
    command = [HEKLA, "run", HELLO_GANG, "--images", table, "--data-dir", tmp_path / "data"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_persons_own_table_of_images_may_come_after_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with start_cluster(tmp_path / "data", "--allow-host-path", str(tmp_path)) as cluster:
        table = tmp_path / "config" / "hekla" / "images.yaml"
        table.parent.mkdir(parents=True)
        table.write_text("tool: {entrypoint: [sh, -c]}")
        cards = "      resources: {limits: {nvidia.com/gpu: 1}}\n"
        text = POD.replace(cards, "").replace("NAME", "late").replace("NODE", "local")
        text = text.replace("SCRIPT", "echo mapped").replace("PATH", str(tmp_path))
        cluster.kubectl("apply", "-f", "-", stdin=text)
        cluster.wait_for("pod/late", ".status.phase", "Succeeded")
        assert cluster.kubectl("logs", "late") == "mapped\n"


SHARED_CARDS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: shared}
spec:
  minAvailable: 3
  tasks:
    - name: part
      replicas: 3
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: any
              command: [sh, -c, "echo card $CUDA_VISIBLE_DEVICES"]
              resources: {limits: {volcano.sh/gpu-memory: 50}}
"""


def test_pods_share_cards_without_a_word_to_the_scheduler(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SHARED_CARDS)
    flags = ["--node-gpus", "2", "--node-gpu-memory", "100", "--data-dir", tmp_path / "data"]
    command = [HEKLA, "run", tmp_path / "job.yaml", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert done.returncode == 0, done.stderr
    assert sorted(line[-6:] for line in done.stdout.splitlines() if "| card" in line) == ["card 0", "card 0", "card 1"]


def test_a_job_that_wants_more_of_a_card_than_there_is_exits_with_2_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SHARED_CARDS.replace("50}", "150}"))
    flags = ["--node-gpus", "2", "--node-gpu-memory", "100", "--data-dir", tmp_path / "data"]
    command = [HEKLA, "run", tmp_path / "job.yaml", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "a pod asks for 150 of one card, the largest has 100" in done.stderr
