"""What is filled into a Job, what is refused and in which words."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from hekla.admission.job import (
    default_changed_job,
    default_job,
    validate_changed_job,
    validate_new_job,
    warnings_about,
)
from hekla.api.job_plugins import Flag, load_flags
from hekla.api.kinds import Obj
from hekla.controllers.job.plugins.ray import Ray
from tests import make

QUEUES = {
    "root": make.queue("root"),
    "default": make.queue("default", parent="root"),
    "closed": make.queue("closed", "Closed"),
    "parent": make.queue("parent"),
    "child": make.queue("child", parent="parent"),
    "closed-parent": make.queue("closed-parent", "Closed"),
    "closed-child": make.queue("closed-child", "Closed", parent="closed-parent"),
}
PLUGINS = {
    "env": lambda: None,
    "svc": lambda: (Flag("disable-network-policy", False),),
    "mpi": lambda: (Flag("master", "master"),),
}
ALLOWED = (
    " valid events are [* JobUpdated PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown], "
    "valid actions are [AbortJob CompleteJob RestartJob RestartPartition RestartPod RestartTask ResumeJob "
    "TerminateJob];"
)


def fault(job: dict[str, Any]) -> str:
    return validate_new_job(job, QUEUES, PLUGINS)


def policy_fault(*policies: dict[str, Any]) -> str:
    return fault(make.job(policies=list(policies)))


def test_a_good_job_has_no_fault() -> None:
    assert fault(make.job(plugins={"env": [], "svc": []})) == ""


def test_a_bare_job_is_filled_in() -> None:
    job = make.new_job("demo", {"replicas": 2, "template": {"spec": {"containers": [make.container()]}}})
    default_job(job)
    assert job["spec"] == {
        "queue": "default",
        "schedulerName": "volcano",
        "maxRetry": 3,
        "minAvailable": 2,
        "tasks": [
            {
                "name": "default0",
                "replicas": 2,
                "minAvailable": 2,
                "maxRetry": 3,
                "template": {"metadata": {}, "spec": {"containers": [make.container(resources={})]}},
            }
        ],
    }


def test_min_available_follows_partitions() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 3, "minPartitions": 2}
    job = make.new_job("demo", make.task("a", 9, partitionPolicy=policy))
    default_job(job)
    assert job["spec"]["tasks"][0]["minAvailable"] == job["spec"]["minAvailable"] == 6


def test_an_explicit_zero_is_overwritten() -> None:
    job = make.new_job("demo", make.task("a", 2), minAvailable=0)
    default_job(job)
    assert job["spec"]["minAvailable"] == 2


def test_frameworks_bring_what_they_need() -> None:
    job = make.new_job(plugins={"mpi": ["--master=m"], "svc": ["--disable-network-policy"]})
    default_job(job)
    assert job["spec"]["plugins"] == {"mpi": ["--master=m"], "svc": ["--disable-network-policy"], "ssh": []}


def test_tasks_that_lack_nothing_stay_as_they_were_written() -> None:
    complete = {"minAvailable": 1, "maxRetry": 2, "policies": [make.policy("PodPending", "RestartJob", timeout="90s")]}
    job = make.new_job("demo", make.task("a", 1, cpu="1000m", **complete), make.task("b", 0, **complete))
    given = deepcopy(job["spec"]["tasks"])
    default_job(job)
    assert (job["spec"]["tasks"], job["spec"]["minAvailable"]) == (given, 2)
    del job["spec"]["tasks"][1]["maxRetry"]
    default_job(job)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    "pod",
    [
        {"terminationGracePeriodSeconds": 0, "containers": [make.container(livenessProbe={"periodSeconds": 0})]},
        {"containers": [make.container(resources={"requests": {"cpu": 2}, "limits": {"cpu": "1000m"}})]},
        {"containers": [make.container(ports=[{"containerPort": 80, "hostPort": 0}], env=[])]},
    ],
)
def test_tasks_that_lack_nothing_are_checked_like_others(pod: dict[str, Any]) -> None:
    complete, bare = make.task("a", 1, pod=pod, minAvailable=1, maxRetry=3), make.task("a", 1, pod=pod)
    jobs = [make.new_job("demo", task) for task in (complete, bare)]
    for job in jobs:
        default_job(job)
    first, second = (validate_new_job(job, QUEUES, PLUGINS) for job in jobs)
    assert first == second


def test_quantities_are_stored_in_canonical_form() -> None:
    job = make.new_job("demo", make.task("a", 1, cpu="1000m"))
    default_job(job)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "1"}}


def test_tasks_are_stored_as_upstream_writes_them_back() -> None:
    variables = [
        {"name": "EMPTY", "value": ""},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    main = make.container(command=[], env=variables, securityContext={"runAsUser": 0, "privileged": False}, tty=False)
    pod = {
        "containers": [main],
        "hostNetwork": False,
        "nodeSelector": {},
        "terminationGracePeriodSeconds": 0,
        "volumes": [
            {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
            {"name": "other", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": "/data", "type": ""}},
        ],
    }
    task = make.task("a", 1, pod=pod, policies=[make.policy("PodPending", "RestartJob", timeout="90s")], dependsOn={})
    task["template"]["metadata"] = {"labels": {"flag": ""}, "annotations": {}}
    job = make.new_job("demo", task)
    default_job(job)
    stored = job["spec"]["tasks"][0]
    assert stored["policies"] == [{"event": "PodPending", "action": "RestartJob", "timeout": "1m30s"}]
    assert stored["dependsOn"] == {}
    assert stored["template"] == {
        "metadata": {"labels": {"flag": ""}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "img",
                    "env": [
                        {"name": "EMPTY"},
                        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
                    ],
                    "securityContext": {"runAsUser": 0, "privileged": False},
                    "resources": {},
                }
            ],
            "terminationGracePeriodSeconds": 0,
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "other", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": "/data", "type": ""}},
            ],
        },
    }


@pytest.mark.parametrize(
    ("hook", "stored", "wrong"),
    [
        ({"sleep": {}}, {"sleep": {"seconds": 0}}, ""),
        (
            {"tcpSocket": {}},
            {"tcpSocket": {"port": 0}},
            "tcpSocket.port: Invalid value: 0: must be between 1 and 65535",
        ),
        ({"httpGet": {}}, {"httpGet": {"port": 0}}, "httpGet.port: Invalid value: 0: must be between 1 and 65535"),
        ({"exec": {}}, {"exec": {}}, "exec.command: Required value"),
        ({}, {}, "preStop: Required value: must specify a handler type"),
    ],
)
def test_what_a_hook_leaves_out_is_nought_where_upstream_always_writes_it(hook: Obj, stored: Obj, wrong: str) -> None:
    job = make.new_job("demo", make.task("a", pod={"containers": [make.container(lifecycle={"preStop": hook})]}))
    default_job(job)
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["lifecycle"] == {"preStop": stored}
    told = validate_new_job(job, QUEUES, PLUGINS)
    assert wrong in told
    assert bool(told) == bool(wrong)


@pytest.mark.parametrize(("partitions", "expected"), [(-1, 6), (0, 6), (1, 3)])
def test_only_a_positive_number_of_partitions_makes_the_minimum(partitions: int, expected: int) -> None:
    policy = {"totalPartitions": 2, "partitionSize": 3, "minPartitions": partitions}
    job = make.new_job("demo", make.task("a", 6, partitionPolicy=policy))
    default_job(job)
    assert job["spec"]["tasks"][0]["minAvailable"] == expected


def test_pods_on_the_hosts_network_keep_the_clusters_names() -> None:
    job = make.new_job("demo", make.task("a", pod={"hostNetwork": True}))
    default_job(job)
    assert job["spec"]["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_many_faults_come_in_one_message() -> None:
    tasks = (make.task("a", 1, minAvailable=2), make.task("b", 1, policies=[make.policy("OutOfSync", "RestartTask")]))
    job = make.job(
        "demo",
        *tasks,
        minAvailable=9,
        queue="nowhere",
        plugins={"nope": []},
        volumes=[{"mountPath": "/a"}],
        policies=[make.policy("PodFailed", "Explode")],
    )
    assert fault(job) == (
        "'minAvailable' is greater than 'replicas' in task: a, job: demo;"
        '1 error occurred:\n\t* spec.tasks.policies: Invalid value: "OutOfSync": invalid policy event\n\n'
        + ALLOWED
        + " job 'minAvailable' should not be greater than total replicas in tasks;"
        '1 error occurred:\n\t* spec.policies: Invalid value: "Explode": invalid policy action\n\n'
        + ALLOWED
        + " unable to find job plugin: nope; either VolumeClaim or VolumeClaimName must be specified;"
        ' unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found;'
    )


CASES = [
    ({"tasks": []}, "No task specified in job spec"),
    ({"plugins": {"mpi": []}}, "The specified mpi master task was not found"),
    ({"minAvailable": 5}, "job 'minAvailable' should not be greater than total replicas in tasks;"),
    ({"plugins": {"b": [], "a": []}}, "unable to find job plugin: a; unable to find job plugin: b;"),
    ({"queue": "root"}, "can not submit job to root queue;"),
    ({"queue": "closed"}, "can only submit job to queue with state `Open`, queue `closed` status is `Closed`;"),
    ({"queue": "parent"}, "can only submit job to leaf queue, queue `parent` has 1 child queues;"),
    (
        {"queue": "closed-parent"},
        "can only submit job to queue with state `Open`, queue `closed-parent` status is `Closed`; "
        "can only submit job to leaf queue, queue `closed-parent` has 1 child queues;",
    ),
    (
        {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "x"}},
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
    ),
    (
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}]},
        "duplicated mountPath: /a;",
    ),
]


@pytest.mark.parametrize(("spec", "message"), CASES)
def test_faults_of_a_job(spec: dict[str, Any], message: str) -> None:
    assert fault(make.job(**spec)) == message


TASKS = [
    (
        [make.task("a"), make.task("a"), make.task("b", minAvailable=9)],
        "duplicated task name a; job 'minAvailable' should not be greater than total replicas in tasks;",
    ),
    ([make.task("a"), make.task("a")], "duplicated task name a;"),
    (
        [make.task("a"), make.task("a", minAvailable=2)],
        "'minAvailable' is greater than 'replicas' in task: a, job: demo; duplicated task name a; "
        "job 'minAvailable' should not be greater than total replicas in tasks;",
    ),
    (
        [make.task("a", dependsOn={"name": ["b"]}), make.task("b", dependsOn={"name": ["a"]})],
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);",
    ),
    (
        [make.task("a", dependsOn={"name": ["nobody"]})],
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);",
    ),
    (
        [make.task("a", 5, partitionPolicy={"totalPartitions": 2, "partitionSize": 3})],
        "'Replicas' are not equal to TotalPartitions*PartitionSize in task: a, job: demo",
    ),
    (
        [make.task("a", cpu="1500m", topologyPolicy="restricted")],
        "the cpu request isn't an integer in spec.task[0] container[0].",
    ),
    (
        [
            make.task(
                "a",
                cpu="1",
                topologyPolicy="restricted",
                pod={"initContainers": [make.container("i"), make.container("j")]},
            )
        ],
        "the cpu request isn't an integer in spec.task[0] container[1].",
    ),
    (
        [make.task("a", topologyPolicy="restricted", pod={"containers": [{"name": "main"}]})],
        "spec.task[0].template.spec.containers[0].image: Required value.",
    ),
    (
        [make.task("a", pod={"containers": [{"name": "main"}]})],
        "spec.task[0].template.spec.containers[0].image: Required value.",
    ),
    (
        [make.task("a", pod={"restartPolicy": "Sometimes"})],
        'spec.task[0].template.spec.restartPolicy: Unsupported value: "Sometimes": '
        'supported values: "Always", "OnFailure", "Never".',
    ),
    (
        [make.task("a", pod={"containers": [make.container(volumeMounts=[{"name": "none", "mountPath": "/x"}])]})],
        'spec.task[0].template.spec.containers[0].volumeMounts[0].name: Not found: "none".',
    ),
    (
        [
            make.task(
                "a",
                pod={"containers": [make.container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            )
        ],
        'spec.task[0].template.spec.containers[0].resources.requests: Invalid value: "2": '
        "must be less than or equal to cpu limit of 1.",
    ),
]


@pytest.mark.parametrize(("tasks", "message"), TASKS)
def test_faults_of_tasks(tasks: list[dict[str, Any]], message: str) -> None:
    assert fault(make.job("demo", *tasks)) == message


def block(*errors: str) -> str:
    head = "1 error occurred:" if len(errors) == 1 else f"{len(errors)} errors occurred:"
    return head + "".join(f"\n\t* {error}" for error in errors) + "\n\n" + ALLOWED


POLICIES = [
    ([{"action": "AbortJob"}], block("either event and exitCode should be specified")),
    (
        [make.policy("PodFailed", "AbortJob", exitCode=3)],
        block("must not specify event and exitCode simultaneously"),
    ),
    ([{"exitCode": 0, "action": "AbortJob"}], block("0 is not a valid error code")),
    ([{"exitCode": 3, "action": "AbortJob"}] * 2, block("duplicate exitCode 3")),
    ([make.policy("PodFailed", "AbortJob")] * 2, block("duplicate event PodFailed  across different policy")),
    (
        [make.policy("*", "AbortJob"), make.policy("PodFailed", "RestartJob")],
        block("if there's * here, no other policy should be here"),
    ),
    ([make.policy("PodFailed", "SyncJob")], block('spec.policies: Invalid value: "SyncJob": invalid policy action')),
    (
        [make.policy("PodRunning", "AbortJob")],
        block('spec.policies: Invalid value: "PodRunning": invalid policy event'),
    ),
]


@pytest.mark.parametrize(("policies", "message"), POLICIES)
def test_faults_of_policies(policies: list[dict[str, Any]], message: str) -> None:
    assert policy_fault(*policies) == message


def test_q17_an_action_for_an_exit_code_is_let_in_whatever_it_is_with_a_warning() -> None:
    strange = {"exitCode": 3, "action": "Whatever"}
    assert policy_fault(strange) == ""
    job = make.job(
        "demo", make.task("a", policies=[{"exitCode": 4}]), policies=[make.policy("PodFailed", "AbortJob"), strange]
    )
    assert warnings_about(job, PLUGINS) == [
        'spec.policies[1].action: "Whatever" is no action, so nothing answers 3',
        'spec.tasks[0].policies[0].action: "" is no action, so nothing answers 4',
    ]


def test_b10_a_ray_job_without_its_head_task_is_refused() -> None:
    plugins = {**PLUGINS, "ray": lambda: Ray.flags}
    job = make.job("demo", make.task("main"), plugins={"ray": []})
    assert validate_new_job(job, QUEUES, plugins) == 'the ray head task "head" was not found;'
    job["spec"]["plugins"] = {"ray": ["--head=main"]}
    assert validate_new_job(job, QUEUES, plugins) == ""


def test_b34_a_plugin_that_cannot_be_loaded_is_refused_with_the_reason() -> None:
    point = EntryPoint("theirs", "no_such_module:Theirs", "hekla.job_plugins")
    job = make.job("demo", plugins={"theirs": [], "env": []})
    text = "unable to load job plugin: theirs (ModuleNotFoundError: No module named 'no_such_module');"
    assert validate_new_job(job, QUEUES, {**PLUGINS, "theirs": partial(load_flags, point)}) == text


def test_b12_arguments_nobody_will_read_are_warned_about() -> None:
    job = make.job(plugins={"svc": ["--enable-networking"], "env": ["anything"]})
    assert warnings_about(job, PLUGINS) == ["spec.plugins[svc]: flag provided but not defined: -enable-networking"]


def test_a_claim_that_can_never_be_made_is_warned_about() -> None:
    good = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [
        {"mountPath": "/good", "volumeClaim": good},
        {"mountPath": "/named", "volumeClaimName": "there"},
        {"mountPath": "/bare", "volumeClaim": {**good, "resources": {}}},
        {"mountPath": "/odd", "volumeClaim": {**good, "accessModes": ["Often"]}},
    ]
    wrong = [warning.partition(": ") for warning in warnings_about(make.job(volumes=volumes), PLUGINS)]
    assert [field for field, _, _ in wrong] == [
        "spec.volumes[2].volumeClaim.resources[storage]",
        "spec.volumes[3].volumeClaim.accessModes",
    ]
    assert all(text.endswith(": its claim will be refused, and the job wait") for _, _, text in wrong)


def test_b28_with_svc_the_longest_pod_name_must_fit_a_hostname() -> None:
    name = "j" * 56
    assert fault(make.job(name, make.task("abcd", 11))) == ""
    assert fault(make.job(name, make.task("abcd", 11), plugins={"svc": []})).startswith("create pod with name jjj")
    assert fault(make.job(name, make.task("abcd", 11, pod={"hostname": "own"}), plugins={"svc": []})) == ""


def changed(**spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    old = make.job("demo", make.task("a", 3, minAvailable=1))
    new = deepcopy(old)
    new["spec"].update(spec)
    return new, old


def test_the_gang_and_the_priority_may_change() -> None:
    assert validate_changed_job(*changed(minAvailable=2, priorityClassName="high")) == ""
    new, old = changed()
    new["spec"]["tasks"][0].update(replicas=5, minAvailable=4)
    assert validate_changed_job(new, old) == ""


def test_an_update_to_nothing_is_kept_as_a_zero() -> None:
    new, _ = changed(minAvailable=0)
    new["spec"]["tasks"][0].update(replicas=0, minAvailable=0)
    default_changed_job(new)
    assert (new["spec"]["minAvailable"], new["spec"]["tasks"][0]["replicas"]) == (0, 0)


def test_what_an_update_has_to_say_itself_is_not_filled_in() -> None:
    new, old = changed()
    del new["spec"]["tasks"][0]["template"]
    default_changed_job(new)
    assert "template" not in new["spec"]["tasks"][0]
    assert validate_changed_job(new, old) == FROZEN
    new["spec"]["tasks"][0] |= {"maxRetry": 0, "template": {"spec": {}}, "partitionPolicy": {"partitionSize": 1}}
    default_changed_job(new)
    assert new["spec"]["tasks"][0]["template"] == {"metadata": {}, "spec": {}}
    assert new["spec"]["tasks"][0]["partitionPolicy"] == {"partitionSize": 1, "minPartitions": 0}


def test_the_same_thing_said_differently_is_no_change() -> None:
    new, old = changed()
    new["spec"]["tasks"][0]["template"]["metadata"] = {}
    new["spec"]["volumes"] = []
    assert validate_changed_job(new, old) == ""
    new, old = changed(policies=[make.policy("PodPending", "RestartJob", timeout="90s")])
    old["spec"]["policies"] = [make.policy("PodPending", "RestartJob", timeout="1m30s")]
    assert validate_changed_job(new, old) == ""


def test_what_an_object_has_empty_is_a_change() -> None:
    new, old = changed()
    new["spec"]["tasks"][0]["template"]["spec"]["securityContext"] = {}
    assert validate_changed_job(new, old) == FROZEN
    new, old = changed()
    new["spec"]["tasks"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    assert validate_changed_job(new, old) == FROZEN


FROZEN = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)


def test_what_is_missing_deep_in_a_template_is_filled_in_for_a_new_job_only() -> None:
    given = {"env": [{"value": "x"}], "ports": [{"name": "http"}], "livenessProbe": {"httpGet": {"path": "/"}}}
    task = make.task(pod={"containers": [make.container(**given)]}, maxRetry=0)
    changed, made = (make.job("demo", deepcopy(task)) for _ in range(2))
    default_changed_job(changed)
    (container,) = changed["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert {name: container[name] for name in given} == given
    default_job(made)
    (container,) = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert {name: container[name] for name in given} == {
        "env": [{"value": "x", "name": ""}],
        "ports": [{"name": "http", "containerPort": 0}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 0}},
    }


UPDATES = [
    ({"minAvailable": 9}, "job 'minAvailable' must not be greater than total replicas"),
    ({"tasks": []}, "job 'minAvailable' must not be greater than total replicas"),
    ({"minAvailable": 0, "tasks": []}, "job updates may not add or remove tasks"),
    ({"queue": "other"}, FROZEN),
    ({"ttlSecondsAfterFinished": 0}, FROZEN),
    ({"runningEstimate": "5m"}, FROZEN),
]


@pytest.mark.parametrize(("spec", "message"), UPDATES)
def test_everything_else_is_fixed(spec: dict[str, Any], message: str) -> None:
    assert validate_changed_job(*changed(**spec)) == message


def test_lowering_replicas_below_the_tasks_minimum_is_refused() -> None:
    new, old = changed()
    new["spec"]["tasks"][0]["replicas"] = 0
    assert validate_changed_job(new, old) == "'minAvailable' must be <= 'replicas' in task: a"
