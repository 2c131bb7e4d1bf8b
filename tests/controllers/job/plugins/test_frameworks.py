"""ssh, tensorflow, mpi, pytorch, ray and hcclrank: what they do to pods, and what they make."""

from __future__ import annotations

import base64
import json
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hekla.api.job_plugins import parse_arguments
from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.plugin import PluginRefused
from hekla.controllers.job.plugins.hcclrank import HcclRank
from hekla.controllers.job.plugins.mpi import Mpi
from hekla.controllers.job.plugins.pytorch import PyTorch
from hekla.controllers.job.plugins.ray import Ray
from hekla.controllers.job.plugins.ssh import Ssh
from hekla.controllers.job.plugins.tensorflow import TensorFlow
from tests import make


def plugin(factory: Any, *arguments: str) -> Any:
    return factory(parse_arguments(factory.flags, arguments))


def shaped(made: Any, job: Job, task: str, index: int = 0) -> dict[str, Any]:
    found = job.task(task)
    assert found is not None
    marks = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
    pod = make.pod(f"{job.key.name}-{task}-{index}", annotations=dict(marks), labels=dict(marks))
    pod["spec"] = deepcopy(found.obj["template"]["spec"])
    pod["metadata"]["annotations"].update((found.obj["template"].get("metadata") or {}).get("annotations") or {})
    made.shape_pod(pod, job)
    return pod


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in container.get("env") or ()}


def test_tensorflow_tells_every_task_of_every_other() -> None:
    job = read_job(make.job("train-123", make.task("ps", 2), make.task("worker", 2), make.task("chief", 1)))
    pod = shaped(plugin(TensorFlow, "--port=5000"), job, "worker")
    assert pod["spec"]["containers"][0]["env"] == [
        {
            "name": "TF_CONFIG",
            "value": '{"cluster":{"ps":["train-123-ps-0.train-123:5000","train-123-ps-1.train-123:5000"],'
            '"worker":["train-123-worker-0.train-123:5000","train-123-worker-1.train-123:5000"],'
            '"chief":["train-123-chief-0.train-123:5000"]},"task":{"type":"worker","index":0}}',
        }
    ]


def test_tensorflow_roles_can_be_renamed_and_a_fixed_hostname_is_repeated() -> None:
    tasks = (make.task("param-server"), make.task("evaluator", 2, pod={"hostname": "evalhost"}), make.task("board"))
    job = read_job(make.job("tfj", *tasks))
    made = plugin(TensorFlow, "--port=3333", "--ps=param-server")
    config = json.loads(variables(shaped(made, job, "param-server")["spec"]["containers"][0])["TF_CONFIG"])
    assert config == {
        "cluster": {"ps": ["tfj-param-server-0.tfj:3333"], "evaluator": ["evalhost.tfj:3333", "evalhost.tfj:3333"]},
        "task": {"type": "ps", "index": 0},
    }
    board = json.loads(variables(shaped(made, job, "board")["spec"]["containers"][0])["TF_CONFIG"])
    assert board["task"] == {"type": "board", "index": 0}


def test_a_tensorflow_task_that_two_roles_name_is_listed_under_the_first() -> None:
    job = read_job(make.job("tfj", make.task("all", 2)))
    config = variables(shaped(plugin(TensorFlow, "--ps=all", "--chief=all"), job, "all")["spec"]["containers"][0])
    assert json.loads(config["TF_CONFIG"]) == {
        "cluster": {"ps": ["tfj-all-0.tfj:2222", "tfj-all-1.tfj:2222"]},
        "task": {"type": "chief", "index": 0},
    }


def test_tensorflow_leaves_a_job_of_one_pod_alone() -> None:
    job = read_job(make.job("tfj", make.task("worker", 1)))
    assert "env" not in shaped(plugin(TensorFlow), job, "worker")["spec"]["containers"][0]


def torch_job() -> Job:
    worker = {
        "containers": [make.container(ports=[{"name": "torch", "containerPort": 23456}]), make.container("side")],
        "initContainers": [make.container("prep")],
    }
    return read_job(make.job("ddp", make.task("master"), make.task("worker", 2, pod=worker), make.task("extra")))


def test_b13_pytorch_ranks_count_masters_and_workers_only() -> None:
    job, made = torch_job(), plugin(PyTorch)
    common = {"MASTER_ADDR": "ddp-master-0.ddp", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert variables(shaped(made, job, "master")["spec"]["containers"][0]) == {**common, "RANK": "0"}
    assert variables(shaped(made, job, "worker", 1)["spec"]["containers"][1]) == {**common, "RANK": "2"}
    assert variables(shaped(made, job, "extra")["spec"]["containers"][0]) == common


def test_pytorch_opens_its_port_where_it_is_not_open() -> None:
    main, side = shaped(plugin(PyTorch), torch_job(), "worker")["spec"]["containers"]
    assert main["ports"] == [{"name": "torch", "containerPort": 23456}]
    assert side["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]


def test_b17_pytorch_workers_wait_for_the_master_on_wish() -> None:
    made = plugin(PyTorch, "--wait-master-enabled")
    waiter = shaped(made, torch_job(), "worker")["spec"]["initContainers"][-1]
    assert (waiter["name"], waiter["image"]) == ("wait-for-master", "busybox:1.36.1")
    assert set(waiter) == {"name", "image", "command"}
    assert "300" in waiter["command"][2]
    for pod in (
        shaped(plugin(PyTorch), torch_job(), "worker"),
        shaped(made, torch_job(), "master"),
        shaped(made, torch_job(), "extra"),
        shaped(made, read_job(make.job("ddp", make.task("worker", 2))), "worker"),
    ):
        assert "wait-for-master" not in [one["name"] for one in pod["spec"].get("initContainers") or ()]


def test_the_waiting_container_can_be_another_and_the_users_own_is_kept() -> None:
    flags = ("--wait-master-enabled", "--wait-master-image=alpine", "--wait-master-timeout=7")
    waiter = shaped(plugin(PyTorch, *flags), torch_job(), "worker")["spec"]["initContainers"][-1]
    assert (waiter["image"], "-ge 7 ]" in waiter["command"][2]) == ("alpine", True)
    own = make.container("wait-for-master", image="mine")
    job = read_job(
        make.job("ddp", make.task("master"), make.task("worker", pod={"initContainers": [own], "containers": []}))
    )
    assert shaped(plugin(PyTorch, *flags), job, "worker")["spec"]["initContainers"] == [own]


def test_the_waiting_script_gives_up_and_succeeds_as_it_should() -> None:
    job = read_job(
        make.job("ddp", make.task("master", pod={"hostname": "127", "subdomain": "0.0.1"}), make.task("worker"))
    )
    made = plugin(PyTorch, "--wait-master-enabled", "--wait-master-timeout=0", "--port=1")
    command = shaped(made, job, "worker")["spec"]["initContainers"][-1]["command"]
    ended = subprocess.run(["bash", *command[1:]], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert ended.stdout.endswith("Timeout waiting for master after 0 seconds\n")


def test_a_port_beyond_32_bits_is_cut_where_a_port_is_declared_and_whole_where_it_is_text() -> None:
    container = shaped(plugin(PyTorch, "--port=4294967318"), torch_job(), "master")["spec"]["containers"][0]
    assert container["ports"] == [{"name": "pytorchjob-port", "containerPort": 22}]
    assert variables(container)["MASTER_PORT"] == "4294967318"
    (service,) = plugin(Ray, "--port=99999999999999999999").objects(read_job(make.job("r", make.task("head"))))
    assert service.obj["spec"]["ports"][0]["port"] == -1


def test_pytorch_without_a_master_changes_nothing() -> None:
    job = read_job(make.job("ddp", make.task("worker", 2)))
    assert "env" not in shaped(plugin(PyTorch), job, "worker")["spec"]["containers"][0]


def mpi_job() -> Job:
    master = {
        "initContainers": [make.container("prep")],
        "containers": [make.container(ports=[{"containerPort": 5000}])],
    }
    return read_job(make.job("lm", make.task("mpimaster", pod=master), make.task("mpiworker", 2), make.task("monitor")))


def test_mpi_tells_the_master_its_workers_and_opens_the_port_everywhere() -> None:
    job, made = mpi_job(), plugin(Mpi, "--master=mpimaster", "--worker=mpiworker", "--port=5000")
    master = shaped(made, job, "mpimaster")["spec"]
    hosts = {"MPI_HOST": "lm-mpiworker-0.lm,lm-mpiworker-1.lm"}
    assert variables(master["containers"][0]) == variables(master["initContainers"][0]) == hosts
    assert master["containers"][0]["ports"] == [{"containerPort": 5000}]
    opened = [{"name": "mpijob-port", "containerPort": 5000}]
    assert master["initContainers"][0]["ports"] == opened
    monitor = shaped(made, job, "monitor")["spec"]["containers"][0]
    assert (monitor["ports"], variables(monitor)) == (opened, {})


def test_b19_an_mpi_job_with_no_workers_has_an_empty_list_of_them() -> None:
    job = read_job(make.job("lm", make.task("master"), make.task("worker", 0)))
    assert variables(shaped(plugin(Mpi), job, "master")["spec"]["containers"][0]) == {"MPI_HOST": None}


def test_an_mpi_master_without_worker_task_is_left_alone() -> None:
    made = plugin(Mpi, "--master=mpimaster", "--worker=nope")
    assert shaped(made, mpi_job(), "mpimaster")["spec"] == mpi_job().tasks[0].obj["template"]["spec"]


def ray_job() -> Job:
    head = make.container("head", command=["python"], args=["x.py"], ports=[{"name": "redis", "containerPort": 6379}])
    return read_job(
        make.job(
            "rayj",
            make.task("head", pod={"containers": [head, make.container("side")]}),
            make.task("worker", pod={"containers": [make.container("worker")]}),
        )
    )


@pytest.mark.parametrize("flag", ["--clientPort=10002", "--clientServerPort=10002"])
def test_b11_ray_starts_head_and_workers_and_knows_both_names_of_the_client_port(flag: str) -> None:
    made = plugin(Ray, flag)
    head, side = shaped(made, ray_job(), "head")["spec"]["containers"]
    assert head["command"][2] == (
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 "
        "--ray-client-server-port=10002"
    )
    assert [port["name"] for port in head["ports"]] == ["redis", "dashboard", "client-server"]
    assert side == make.container("side")
    worker = shaped(made, ray_job(), "worker")["spec"]["containers"][0]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=rayj-head-0.rayj:6379"]


def test_b09_a_service_leads_to_the_ray_head_whatever_its_ports_are_called() -> None:
    (wanted,) = plugin(Ray).objects(ray_job())
    assert wanted.obj["metadata"]["name"] == "rayj-head-svc"
    assert [(port["port"], port["targetPort"]) for port in wanted.obj["spec"]["ports"]] == [
        (6379, 6379),
        (8265, "dashboard"),
        (10001, "client-server"),
    ]


def test_b09_a_ray_port_that_carries_the_name_of_another_is_found_by_its_number() -> None:
    head = make.container("head", ports=[{"name": "gcs", "containerPort": 8265}, {"containerPort": 6379}])
    (wanted,) = plugin(Ray).objects(read_job(make.job("rayj", make.task("head", pod={"containers": [head]}))))
    assert [port["targetPort"] for port in wanted.obj["spec"]["ports"]] == [6379, 8265, "client-server"]


def test_ray_without_a_head_says_so() -> None:
    with pytest.raises(PluginRefused, match="job rayj doesn't have head task nope"):
        shaped(plugin(Ray, "--head=nope"), ray_job(), "worker")


def test_hcclrank_numbers_masters_then_workers_and_believes_rank() -> None:
    by_field = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    worker = [make.container("a", env=[by_field]), make.container("b", env=[{"name": "RANK", "value": "7"}])]
    given = make.task("other")
    given["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "42"}}
    extra = make.task("extra", pod={"containers": [make.container(env=[{"name": "RANK", "value": "8"}])]})
    tasks = (
        make.task("master", 2),
        make.task("worker", 2, pod={"containers": worker}),
        extra,
        given,
        make.task("none"),
    )
    job, made = read_job(make.job("npu", *tasks)), plugin(HcclRank)

    def rank(task: str, index: int = 0) -> str | None:
        found: str | None = shaped(made, job, task, index)["metadata"]["annotations"].get("hccl/rankIndex")
        return found

    assert [rank("master", 1), rank("worker", 1), rank("extra"), rank("other"), rank("none")] == [
        "1",
        "3",
        "8",
        "42",
        None,
    ]


def ssh_job() -> Job:
    pinned = make.task("pinned", 3, pod={"hostname": "box", "subdomain": "lab"})
    return read_job(make.job("demo", make.task("launcher"), make.task("worker", 2), make.task("spare", 0), pinned))


def decoded(data: dict[str, str]) -> dict[str, str]:
    return {file: base64.b64decode(text).decode() for file, text in data.items()}


def test_ssh_names_every_pod_in_its_configuration() -> None:
    (wanted,) = plugin(Ssh, "--ssh-port=2026").objects(ssh_job())
    assert decoded(wanted.obj["data"])["config"] == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host demo-launcher-0\n  HostName demo-launcher-0.demo\n  Port 2026\n"
        "Host demo-worker-0\n  HostName demo-worker-0.demo\n  Port 2026\n"
        "Host demo-worker-1\n  HostName demo-worker-1.demo\n  Port 2026\n"
        "Host box\n  HostName box.lab\n  Port 2026\n"
    )


def test_ssh_knows_pods_of_a_job_with_dots_in_its_name() -> None:
    (wanted,) = plugin(Ssh).objects(read_job(make.job("a.b", make.task("w"))))
    config = base64.b64decode(wanted.obj["data"]["config"]).decode()
    assert config.splitlines()[2:4] == ["Host a.b-w-0", "  HostName a.b-w-0.a.b"]


def test_a_generated_pair_is_one_that_ssh_accepts(tmp_path: Path) -> None:
    (wanted,) = plugin(Ssh).objects(ssh_job())
    keys = decoded(wanted.once()["data"])
    assert keys["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert keys["id_rsa.pub"] == keys["authorized_keys"]
    assert keys["id_rsa.pub"].startswith("ssh-rsa ")
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    private = load_pem_private_key(keys["id_rsa"].encode(), None)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert public.decode() + "\n" == keys["id_rsa.pub"]


def test_ssh_takes_keys_as_they_are_given() -> None:
    (wanted,) = plugin(Ssh, "--ssh-private-key=private", "--ssh-public-key=public").objects(ssh_job())
    keys = decoded(wanted.once()["data"])
    assert keys == {"id_rsa": "private", "id_rsa.pub": "public", "authorized_keys": "public"}


@pytest.mark.parametrize(
    ("arguments", "path", "mode"), [((), "/root/.ssh", 0o600), (("--ssh-key-file-path=/k",), "/k", 0o644)]
)
def test_ssh_mounts_the_keys(arguments: tuple[str, ...], path: str, mode: int) -> None:
    spec = shaped(plugin(Ssh, *arguments), ssh_job(), "launcher")["spec"]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "demo-ssh", "mountPath": path, "subPath": ".ssh"}]
    (volume,) = spec["volumes"]
    assert volume["secret"]["defaultMode"] == mode
    assert [item["path"] for item in volume["secret"]["items"]] == [
        ".ssh/id_rsa",
        ".ssh/id_rsa.pub",
        ".ssh/authorized_keys",
        ".ssh/config",
    ]


def test_a_port_that_is_none_becomes_22() -> None:
    (wanted,) = plugin(Ssh, "--ssh-port=70000").objects(ssh_job())
    assert "Port 22\n" in decoded(wanted.obj["data"])["config"]
