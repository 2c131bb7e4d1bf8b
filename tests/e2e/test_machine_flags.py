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
        # They are for the one who starts a cluster.
        done = cluster.hekla("run", HELLO_GANG, "--images", tmp_path / "images.yaml", check=False)
        assert done.returncode == 1
        assert "a cluster is there already" in done.stderr


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
