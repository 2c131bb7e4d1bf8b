"""The jobs of the documents people start from, run with real processes after only their images are mapped."""

from __future__ import annotations

import ast
import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.e2e.local_cluster import ROOT, LocalCluster, forwarded, start_cluster
from tests.eventually import eventually
from tests.kubectl import needs_newer_kubectl

# All of them are waited for in the first test that asks.
pytestmark = [pytest.mark.timeout(600), needs_newer_kubectl]

SEEDS = ROOT / "tests" / "seeds"
# What these say is not YAML; the corrections are those that our reader proposes.
CORRECTIONS = {
    "003-1-tf-job.yaml": [("event: *", 'event: "*"'), ("  ...\n", "")],
    "003-2-spark-job.yaml": [("//", "#")],
}
WITHOUT_TASKS = "002-1-example-job.yaml"
SIZE = ("--node-cpu", "64", "--node-memory", "128Gi", "--node-gpus", "2")
SECONDS = 240  # Ray alone starts a dozen interpreters
RAY_DASHBOARD = 8265
FILES = sorted(path.name for path in SEEDS.glob("0*.yaml") if path.name != WITHOUT_TASKS)


def namespace(file: str) -> str:
    """One for each document's example: several share a name."""
    return "seed-" + file[:5]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """All of them at once: much of the time they wait for each other's programs to start."""
    folder = tmp_path_factory.mktemp("seeds")
    with start_cluster(folder / "data", "--images", str(SEEDS / "images.yaml"), *SIZE) as running:
        for file in FILES:
            text = (SEEDS / file).read_text()
            for wrong, right in CORRECTIONS.get(file, []):
                text = text.replace(wrong, right)
            running.kubectl("create", "namespace", namespace(file))
            # One has a field that nobody knows: a warning, as `hekla run` gives it.
            running.kubectl("apply", "--validate=warn", "-n", namespace(file), "-f", "-", stdin=text)
        yield running


def completed(cluster: LocalCluster, file: str, job: str) -> None:
    wait = ["--for=jsonpath={.status.state.phase}=Completed", f"--timeout={SECONDS}s"]
    cluster.kubectl("wait", "-n", namespace(file), f"vcjob/{job}", *wait)


def said(cluster: LocalCluster, file: str, pod: str) -> str:
    return cluster.kubectl("logs", "-n", namespace(file), pod)


def test_no_example_is_left_out() -> None:
    tested = {*MNIST, *HELLO, "002-2-mpi-job.yaml", "002-5-pytorch-job.yaml", "002-6-tensorflow-training.yaml"}
    tested |= {"002-8-ray-cluster-job.yaml", "004-1-tensorflow-benchmark.yaml", *CORRECTIONS}
    assert sorted(tested) == FILES


MNIST = [
    "000-1-tensorflow-dist-mnist.yaml",
    "001-1-tensorflow-dist-mnist.yaml",
    "002-3-tensorflow-dist-mnist.yaml",
    "002-4-tensorflow-dist-mnist-env.yaml",
]


@pytest.mark.parametrize("file", MNIST)
def test_tf_config_parses_and_every_member_answers_by_name(cluster: LocalCluster, file: str) -> None:
    job = "tensorflow-dist-mnist"
    completed(cluster, file, job)
    for index in range(2):
        first, *answers = said(cluster, file, f"{job}-worker-{index}").splitlines()
        config = json.loads(first.removeprefix("TF_CONFIG "))
        assert config["cluster"]["worker"] == [f"{job}-worker-{each}.{job}:2222" for each in range(2)]
        assert config["task"]["index"] == index
        members = [f"{job}-ps-0", *(f"{job}-worker-{each}" for each in range(2))]
        assert answers == [f"{each}.{job}:2222 is {each}" for each in members]


def test_a_benchmark_gets_its_hosts_as_flags(cluster: LocalCluster) -> None:
    file, job = "004-1-tensorflow-benchmark.yaml", "tensorflow-benchmark"
    completed(cluster, file, job)
    members = [f"{job}-ps-0", *(f"{job}-worker-{each}" for each in range(2))]
    assert said(cluster, file, f"{job}-worker-1").splitlines() == [f"{each}.{job}:2222 is {each}" for each in members]


def test_every_pod_prints_its_tf_config(cluster: LocalCluster) -> None:
    file, job = "002-6-tensorflow-training.yaml", "tensorflow-training"
    completed(cluster, file, job)
    for role, replicas in (("ps", 2), ("worker", 3)):
        for index in range(replicas):
            config = ast.literal_eval(said(cluster, file, f"{job}-{role}-{index}").removeprefix("TF_CONFIG: "))
            assert config["task"] == {"type": role, "index": index}


HELLO = ["000-2-lm-mpi-job.yaml", "002-7-lm-mpi-job.yaml"]


@pytest.mark.parametrize("file", HELLO)
def test_mpiexec_starts_a_rank_on_both_workers_over_ssh(cluster: LocalCluster, file: str) -> None:
    completed(cluster, file, "lm-mpi-job")
    if file == HELLO[1]:  # the other writes what they say into a file
        text = said(cluster, file, "lm-mpi-job-mpimaster-0")
        for rank in range(2):
            assert f"processor lm-mpi-job-mpiworker-{rank}, rank {rank} out of 2" in text


def test_mpiexec_reaches_workers_with_a_gpu_each(cluster: LocalCluster) -> None:
    file, job = "002-2-mpi-job.yaml", "mpi-job"

    def ranks() -> list[str]:
        lines = said(cluster, file, f"{job}-mpimaster-0").splitlines()
        found = sorted(line for line in lines if line.startswith("rank"))
        return found if len(found) == 2 else []

    assert eventually(ranks, seconds=SECONDS) == [f"rank {rank} on {job}-mpiworker-{rank}" for rank in range(2)]
    show = ["--", "printenv", "CUDA_VISIBLE_DEVICES"]
    workers = [f"{job}-mpiworker-{index}" for index in range(2)]
    assert sorted(cluster.kubectl("exec", "-n", namespace(file), pod, *show) for pod in workers) == ["0\n", "1\n"]


def test_a_pytorch_process_group_forms(cluster: LocalCluster) -> None:
    """It forms when all three ranks are there, each once."""
    file, job = "002-5-pytorch-job.yaml", "pytorch-job"
    completed(cluster, file, job)
    assert said(cluster, file, f"{job}-master-0").splitlines() == [
        f"MASTER_ADDR: {job}-master-0.{job}",
        "MASTER_PORT: 23456",
        "WORLD_SIZE: 3",
        "RANK: 0",
        "Initialized process group, rank: 0",
    ]


_ASK_RAY = """
import ray, socket
ray.init("auto", logging_level="error")
print(len([node for node in ray.nodes() if node["Alive"]]), "nodes")
@ray.remote
def hello():
    return "Hello from Ray!"
print(ray.get(hello.remote()))
"""


def test_a_ray_cluster_has_three_nodes_and_runs_a_task(cluster: LocalCluster) -> None:
    file, job = "002-8-ray-cluster-job.yaml", "ray-cluster-job"

    def answer() -> str:
        inside = ["exec", "-n", namespace(file), f"{job}-head-0", "--", "python", "-c", _ASK_RAY]
        text = cluster.kubectl(*inside, check=False)
        return text if "3 nodes" in text else ""

    assert "Hello from Ray!" in str(eventually(answer, seconds=SECONDS))
    with forwarded(cluster, f"pod/{job}-head-0", RAY_DASHBOARD, namespace=namespace(file)) as port:
        assert "ray_version" in eventually(lambda: _page(f"http://127.0.0.1:{port}/api/version"), seconds=SECONDS)
    cluster.kubectl("delete", "-n", namespace(file), "vcjob", job)


def _page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.parametrize(("file", "job"), [("003-1-tf-job.yaml", "tf-job"), ("003-2-spark-job.yaml", "spark-job")])
def test_six_pods_run_the_commands_of_their_images(cluster: LocalCluster, file: str, job: str) -> None:
    wait = ["--for=jsonpath={.status.running}=6", f"--timeout={SECONDS}s"]
    cluster.kubectl("wait", "-n", namespace(file), f"vcjob/{job}", *wait)
    if job == "spark-job":
        assert said(cluster, file, f"{job}-driver-0") == f"the driver is {job}-driver-0\n"
        assert said(cluster, file, f"{job}-executor-4") == f"an executor is {job}-executor-4\n"
