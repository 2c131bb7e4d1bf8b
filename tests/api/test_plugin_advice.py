from __future__ import annotations

from typing import Any

import pytest

from hekla.api.job_plugins import flags_of, parse_arguments, registered
from hekla.api.plugin_advice import advice
from tests import make

POINTS = registered()


def advised(plugins: dict[str, list[str]], *tasks: dict[str, Any], name: str = "demo") -> list[tuple[str, str]]:
    flags = {name: flags_of(POINTS[name].load()) for name in plugins}
    understood = {name: parse_arguments(flags[name] or (), plugins[name]) for name in plugins if flags[name]}
    return advice(name, {"tasks": list(tasks)}, understood)


def test_a_job_that_says_what_its_plugins_understand_gets_no_advice() -> None:
    master, worker = make.task("master"), make.task("worker", 2)
    for name in ("pytorch", "mpi", "hcclrank", "tensorflow"):
        assert advised({name: [], "svc": [], "ssh": [], "env": ["anything"]}, master, worker) == []


@pytest.mark.parametrize(
    ("plugin", "arguments", "tasks", "text"),
    [
        ("pytorch", [], ["worker"], 'no task is named "master" (--master)'),
        ("pytorch", [], ["a"], 'no task is named "master" or "worker": it changes nothing'),
        ("pytorch", ["--worker=w"], ["master"], 'no task is named "w" (--worker)'),
        ("mpi", [], ["master"], 'no task is named "worker" (--worker)'),
        (
            "tensorflow",
            [],
            ["a"],
            'no task is named "ps", "worker", "chief" or "evaluator": the cluster in TF_CONFIG is empty',
        ),
        ("tensorflow", ["--ps=p"], ["worker"], 'no task is named "p" (--ps)'),
        ("hcclrank", ["--master=m"], ["worker"], 'no task is named "m" (--master)'),
    ],
)
def test_a_role_no_task_has_is_told(plugin: str, arguments: list[str], tasks: list[str], text: str) -> None:
    assert advised({plugin: arguments}, *map(make.task, tasks)) == [(plugin, text)]


def test_a_role_that_may_be_left_out_is_not_told() -> None:
    assert advised({"pytorch": []}, make.task("master")) == []
    assert advised({"ray": []}, make.task("head", pod={"containers": [make.container("head")]})) == []
    assert advised({"tensorflow": []}, make.task("worker", 2)) == []


def test_b08_commands_that_ray_replaces_and_containers_it_does_not_find_are_told() -> None:
    head = make.task("head", pod={"containers": [make.container("head", command=["python"])]})
    assert advised({"ray": []}, head, make.task("worker")) == [
        ("ray", 'the command of container "head" in task "head" is replaced by "ray start"'),
        ("ray", 'task "worker" has no container named "worker" (--workerContainer): ray is not started in it'),
    ]


def test_b15_several_masters_are_told_that_each_of_them_is_rank_0() -> None:
    text = 'task "master" has 2 replicas: every one of them is rank 0'
    assert advised({"pytorch": []}, make.task("master", 2), make.task("worker")) == [("pytorch", text)]


def test_a_task_that_is_master_and_worker_is_told_that_nobody_is_rank_0() -> None:
    text = 'task "a" is master and worker: ranks begin with 1, and nobody is rank 0'
    assert advised({"pytorch": ["--master=a", "--worker=a"]}, make.task("a", 2)) == [("pytorch", text)]


def test_b21_ports_of_mpi_and_ssh_that_do_not_meet_are_told() -> None:
    tasks = make.task("master"), make.task("worker")
    text = "it opens port 5000, but ssh connects to 22 (ssh: --ssh-port)"
    assert advised({"mpi": ["--port=5000"], "ssh": []}, *tasks) == [("mpi", text)]
    assert advised({"mpi": ["--port=5000"], "ssh": ["--ssh-port=5000"]}, *tasks) == []


def test_a_port_that_is_none_is_told_and_the_one_in_its_place_is_compared() -> None:
    tasks = make.task("master"), make.task("worker")
    assert advised({"mpi": [], "ssh": ["--ssh-port=70000"]}, *tasks) == [
        ("ssh", "--ssh-port: 70000 is no port, so 22 is used")
    ]


@pytest.mark.parametrize(
    ("plugin", "given", "text"),
    [
        ("tensorflow", "--port=-1", "--port: -1 is no port"),
        ("pytorch", "--port=0", "--port: 0 is no port"),
        ("pytorch", "--port=70000", "--port: 70000 is no port"),
        ("ray", "--dashboardPort=65536", "--dashboardPort: 65536 is no port"),
        ("ray", "--clientServerPort=65536", "--clientServerPort: 65536 is no port"),
        ("ray", "--port=8265", "--port and --dashboardPort are both 8265, which the head's Service cannot have twice"),
        (
            "ray",
            "--clientServerPort=6379",
            "--port and --clientServerPort are both 6379, which the head's Service cannot have twice",
        ),
    ],
)
def test_ports_that_are_none_or_taken_are_told(plugin: str, given: str, text: str) -> None:
    head = make.task("head", pod={"containers": [make.container("head")]})
    assert advised({plugin: [given]}, head, make.task("master"), make.task("ps")) == [(plugin, text)]


def test_a_port_of_mpi_that_is_none_is_told_before_it_is_compared() -> None:
    found = advised({"mpi": ["--port=0"], "ssh": []}, make.task("master"), make.task("worker"))
    assert found[0] == ("mpi", "--port: 0 is no port")


@pytest.mark.parametrize("path", ["", "keys", "'/root/.ssh'"])
def test_a_path_of_the_keys_that_is_not_absolute_is_told(path: str) -> None:
    text = f'--ssh-key-file-path: "{path}" is no absolute path'
    assert advised({"ssh": [f"--ssh-key-file-path={path}"]}, make.task("a")) == [("ssh", text)]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("--ssh-public-key=k", "without --ssh-private-key, --ssh-public-key is not used: a new pair is made"),
        ("--ssh-private-key=k", "without --ssh-public-key, nobody can log in with --ssh-private-key"),
    ],
)
def test_half_a_key_pair_is_told(given: str, text: str) -> None:
    assert advised({"ssh": [given]}, make.task("a")) == [("ssh", text)]


def test_b12_what_was_wrong_with_the_arguments_is_told_in_gos_words() -> None:
    given = {"svc": ["--inject-hosts-env=no"], "ssh": ["--ssh-port=abc"], "env": ["--anything"]}
    assert advised(given, make.task("a")) == [
        ("ssh", 'invalid value "abc" for flag -ssh-port: parse error'),
        ("svc", 'invalid boolean value "no" for -inject-hosts-env: parse error'),
    ]


def test_a_dot_in_the_name_of_a_job_whose_pods_are_hosts_is_told() -> None:
    told = 'no pod can be made: "v1.5" has a dot, which the name of a host may not have; write "-" in its place'
    assert advised({"svc": []}, make.task("a"), name="v1.5") == [("svc", told)]
    assert advised({"env": []}, make.task("a"), name="v1.5") == []
    named = make.task("a")
    named["template"]["spec"] |= {"hostname": "first", "subdomain": "all"}
    assert advised({"svc": []}, named, name="v1.5") == []
    assert advised({"svc": []}, named, make.task("b"), name="v1.5") == [("svc", told)]
