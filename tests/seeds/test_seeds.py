"""The examples of the documents people start from, applied unchanged, give the objects that those documents print."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import CONFIG_MAP, JOB, NETWORK_POLICY, POD, POD_GROUP, SECRET, SERVICE, Obj
from hekla.api.meta import name_of
from hekla.cli.manifest import BadFile, read_manifest
from tests.controllers.bench import Bench, on_bench

HERE = Path(__file__).parent
MNIST = "tensorflow-dist-mnist"
MNIST_LABELS = {"volcano.sh/job-name": MNIST, "volcano.sh/job-namespace": "default"}
MNIST_HOSTS = [f"{MNIST}-worker-0.{MNIST}", f"{MNIST}-worker-1.{MNIST}"]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
World = dict[str, dict[str, Obj]]


def applied(file: str) -> World:
    """Everything there is once an example has been applied and has come to rest, by kind and name."""
    (document,) = read_manifest(str(HERE / file))
    return world_of(document.obj)


def world_of(job: Obj) -> World:
    async def script(bench: Bench) -> World:
        job["metadata"].setdefault("namespace", "default")
        await bench.create(job)
        await bench.settle()
        kinds = (JOB, POD_GROUP, POD, SERVICE, CONFIG_MAP, SECRET, NETWORK_POLICY)
        return {
            kind.kind: {name_of(one): one for one in await bench.client.find_all(kind, "default")} for kind in kinds
        }

    return on_bench(script)[0]


def env(world: World, pod: str) -> dict[str, Any]:
    """The variables of a pod's first container, those from the ConfigMap as the node would fill them in."""
    values = {}
    for variable in world["Pod"][pod]["spec"]["containers"][0].get("env", ()):
        source = (variable.get("valueFrom") or {}).get("configMapKeyRef")
        value = world["ConfigMap"][source["name"]]["data"][source["key"]] if source else variable.get("value")
        values[variable["name"]] = value
    return values


def mounts(world: World, pod: str) -> dict[str, str]:
    """What a pod's first container mounts, but for the token of its account, which every pod has."""
    found = world["Pod"][pod]["spec"]["containers"][0].get("volumeMounts") or ()
    return {mount["mountPath"]: mount["name"] for mount in found if mount["mountPath"] != ACCOUNT}


def secret(world: World, name: str) -> dict[str, str]:
    return {key: b64decode(value).decode() for key, value in world["Secret"][name]["data"].items()}


# These two are not YAML, and the third has no tasks: they are looked at below.
NOT_AS_THEY_ARE = ("003-1-tf-job.yaml", "003-2-spark-job.yaml", "002-1-example-job.yaml")
EXAMPLES = sorted(path.name for path in HERE.glob("0*.yaml") if path.name not in NOT_AS_THEY_ARE)


@pytest.mark.parametrize("file", EXAMPLES)
def test_every_example_runs(file: str) -> None:
    world = applied(file)
    (job,) = world["Job"].values()
    assert job["status"]["state"]["phase"] == "Running"
    replicas = sum(task["replicas"] for task in job["spec"]["tasks"])
    assert [pod["status"]["phase"] for pod in world["Pod"].values()] == ["Running"] * replicas
    (group,) = world["PodGroup"].values()
    assert group["spec"]["minMember"] == job["spec"]["minAvailable"]


@pytest.mark.parametrize(
    "file", ["000-1-tensorflow-dist-mnist.yaml", "001-1-tensorflow-dist-mnist.yaml", "002-3-tensorflow-dist-mnist.yaml"]
)
def test_pods_find_each_other_by_name(file: str) -> None:
    world = applied(file)
    service, policy = world["Service"][MNIST], world["NetworkPolicy"][MNIST]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == MNIST_LABELS
    assert policy["spec"] == {
        "ingress": [{"from": [{"podSelector": {"matchLabels": MNIST_LABELS}}]}],
        "podSelector": {"matchLabels": MNIST_LABELS},
        "policyTypes": ["Ingress"],
    }
    assert world["ConfigMap"][f"{MNIST}-svc"]["data"] == {
        "VC_PS_HOSTS": f"{MNIST}-ps-0.{MNIST}",
        "VC_PS_NUM": "1",
        "VC_WORKER_HOSTS": ",".join(MNIST_HOSTS),
        "VC_WORKER_NUM": "2",
        "ps.host": f"{MNIST}-ps-0.{MNIST}",
        "worker.host": "\n".join(MNIST_HOSTS),
    }
    pod = world["Pod"][f"{MNIST}-ps-0"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"{MNIST}-ps-0", MNIST)
    assert mounts(world, f"{MNIST}-ps-0") == {"/etc/volcano": f"{MNIST}-svc"}
    volume = {"name": f"{MNIST}-svc", "configMap": {"name": f"{MNIST}-svc", "defaultMode": 420}}
    assert [one for one in pod["spec"]["volumes"] if "projected" not in one] == [volume]
    for one in (service, policy, world["ConfigMap"][f"{MNIST}-svc"], pod):
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", MNIST, True)


def test_the_guides_pod_has_its_variables_in_the_guides_order() -> None:
    world = applied("001-1-tensorflow-dist-mnist.yaml")
    pod = world["Pod"][f"{MNIST}-ps-0"]
    names = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
    assert names == [
        "VK_TASK_INDEX", "VC_TASK_INDEX", "VC_PS_HOSTS", "VC_PS_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM",
    ]  # fmt: skip
    assert env(world, f"{MNIST}-ps-0") == {
        "VK_TASK_INDEX": "0",
        "VC_TASK_INDEX": "0",
        "VC_PS_HOSTS": f"{MNIST}-ps-0.{MNIST}",
        "VC_PS_NUM": "1",
        "VC_WORKER_HOSTS": ",".join(MNIST_HOSTS),
        "VC_WORKER_NUM": "2",
    }
    printed = {
        "volcano.sh/job-name": MNIST,
        "volcano.sh/job-version": "0",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-spec": "ps",
        "volcano.sh/template-uid": f"{MNIST}-ps",
    }
    assert printed.items() <= pod["metadata"]["annotations"].items()
    labels = {**MNIST_LABELS, "volcano.sh/queue-name": "default", "volcano.sh/task-spec": "ps"}
    assert labels.items() <= pod["metadata"]["labels"].items()


def test_pods_know_their_index() -> None:
    world = applied("002-4-tensorflow-dist-mnist-env.yaml")
    for pod, index in ((f"{MNIST}-ps-0", "0"), (f"{MNIST}-worker-0", "0"), (f"{MNIST}-worker-1", "1")):
        indices = {"VK_TASK_INDEX": index, "VC_TASK_INDEX": index}
        assert indices.items() <= env(world, pod).items()


def test_pods_log_in_to_each_other() -> None:
    world = applied("002-2-mpi-job.yaml")
    files = secret(world, "mpi-job-ssh")
    hosts = ("mpimaster-0", "mpiworker-0", "mpiworker-1")
    blocks = [f"Host mpi-job-{host}\n  HostName mpi-job-{host}.mpi-job\n  Port 22\n" for host in hosts]
    assert files["config"] == "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n" + "".join(blocks)
    assert files["authorized_keys"] == files["id_rsa.pub"]
    assert files["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert mounts(world, "mpi-job-mpimaster-0") == {"/etc/volcano": "mpi-job-svc", "/root/.ssh": "mpi-job-ssh"}


def test_pytorch_pods_have_their_rank() -> None:
    world = applied("002-5-pytorch-job.yaml")
    for pod, rank in (("master-0", "0"), ("worker-0", "1"), ("worker-1", "2")):
        expected = {
            "MASTER_ADDR": "pytorch-job-master-0.pytorch-job",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "3",
            "RANK": rank,
        }
        assert expected.items() <= env(world, f"pytorch-job-{pod}").items()


def test_tensorflow_pods_have_their_cluster() -> None:
    job = "tensorflow-training"
    config = json.loads(env(applied("002-6-tensorflow-training.yaml"), f"{job}-worker-0")["TF_CONFIG"])
    assert config == {
        "cluster": {
            "ps": [f"{job}-ps-{index}.{job}:2222" for index in range(2)],
            "worker": [f"{job}-worker-{index}.{job}:2222" for index in range(3)],
        },
        "task": {"type": "worker", "index": 0},
    }


def test_the_mpi_master_knows_its_workers() -> None:
    world = applied("002-7-lm-mpi-job.yaml")
    job = "lm-mpi-job"
    hosts = f"{job}-mpiworker-0.{job},{job}-mpiworker-1.{job}"
    assert env(world, f"{job}-mpimaster-0")["MPI_HOST"] == hosts
    assert "MPI_HOST" not in env(world, f"{job}-mpiworker-0")
    assert set(world["Job"][job]["spec"]["plugins"]) == {"mpi", "svc", "ssh"}
    assert f"{job}-ssh" in world["Secret"]


def test_a_ray_cluster_starts_with_its_head() -> None:
    world = applied("002-8-ray-cluster-job.yaml")
    job = "ray-cluster-job"
    assert world["Service"][job]["spec"]["clusterIP"] == "None"
    head = world["Service"][f"{job}-head-svc"]["spec"]
    assert (head["type"], [port["port"] for port in head["ports"]]) == ("ClusterIP", [6379, 8265, 10001])
    command = world["Pod"][f"{job}-head-0"]["spec"]["containers"][0]["command"]
    assert command == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 "
        "--ray-client-server-port=10001",
    ]
    worker = world["Pod"][f"{job}-worker-1"]["spec"]["containers"][0]["command"]
    assert worker == ["sh", "-c", f"ray start --block --address={job}-head-0.{job}:6379"]


def test_an_example_that_only_shows_plugins_is_refused_for_its_missing_tasks() -> None:
    (document,) = read_manifest(str(HERE / "002-1-example-job.yaml"))
    with pytest.raises(ExceptionGroup) as refused:
        world_of(document.obj)
    (error,) = refused.value.exceptions
    assert str(error).endswith("No task specified in job spec")


def test_a_queue_given_twice_is_warned_about() -> None:
    (document,) = read_manifest(str(HERE / "002-8-ray-cluster-job.yaml"))
    (warning,) = document.warnings
    assert ":15: 'queue' is given twice (first on line 6); the last one counts" in warning


def corrected(tmp_path: Path, file: str, *steps: tuple[str, Callable[[str], str]]) -> Obj:
    """Each step: what the reader says to the text as it is, and the correction it asks for."""
    path, text = tmp_path / file, (HERE / file).read_text()
    for remedy, correct in steps:
        path.write_text(text)
        with pytest.raises(BadFile) as refused:
            read_manifest(str(path))
        assert remedy in str(refused.value)
        text = correct(text)
    path.write_text(text)
    (document,) = read_manifest(str(path))
    return document.obj


def test_an_example_with_a_bare_star_says_how_to_write_it(tmp_path: Path) -> None:
    job = corrected(
        tmp_path,
        "003-1-tf-job.yaml",
        ('a lone * starts an alias in YAML: write "*" in quotes', lambda text: text.replace("event: *", 'event: "*"')),
        ("line 25: ... stands for something left out", lambda text: text.replace("  ...\n", "")),
    )
    world = world_of(job)
    assert sorted(world["Pod"]) == ["tf-job-ps-0", *(f"tf-job-worker-{index}" for index in range(5))]
    assert world["Job"]["tf-job"]["spec"]["minAvailable"] == 6


def test_an_example_with_a_comment_of_slashes_says_how_to_write_it(tmp_path: Path) -> None:
    remedy = "line 12: // does not start a comment in YAML: write #"
    job = corrected(tmp_path, "003-2-spark-job.yaml", (remedy, lambda text: text.replace("//", "#")))
    world = world_of(job)
    assert len(world["Pod"]) == 6
    (group,) = world["PodGroup"].values()
    assert group["spec"]["minMember"] == 3
