from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from hekla.controllers.job.lifecycle import Operation
from hekla.controllers.job.model import read_job, read_pods
from hekla.controllers.job.pods import PodTemplate, build_pod, plan, victims
from hekla.controllers.job.policy import Occurrence
from tests import make


def built(job: dict[str, Any], index: int = 0, claims: dict[str, str] | None = None) -> dict[str, Any]:
    read = read_job(job)
    return build_pod(read, read.tasks[0], index, claims=claims or {}, rng=random.Random(1))


def names(pods: Any) -> list[str]:
    return [pod.name for pod in pods]


def test_a_pod_carries_its_job_its_task_and_its_index() -> None:
    job = make.job("demo", make.task("a", 2), meta={"annotations": {"volcano.sh/preemptable": "true"}})
    job["status"] = {"version": 2, "retryCount": 1}
    pod = built(job, 1)
    assert pod["metadata"] == {
        "name": "demo-a-1",
        "namespace": "default",
        "labels": {
            "volcano.sh/job-name": "demo",
            "volcano.sh/job-namespace": "default",
            "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": "1",
            "volcano.sh/task-spec": "a",
        },
        "annotations": {
            "scheduling.k8s.io/group-name": "demo-uid-demo",
            "volcano.sh/job-name": "demo",
            "volcano.sh/job-retry-count": "1",
            "volcano.sh/job-version": "2",
            "volcano.sh/preemptable": "true",
            "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": "1",
            "volcano.sh/task-spec": "a",
            "volcano.sh/template-uid": "demo-a",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "demo",
                "uid": "uid-demo",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"]["schedulerName"] == "volcano"


def test_pods_of_a_job_that_admission_did_not_fill_in_are_the_gang_schedulers() -> None:
    job = make.job("demo", make.task("a"))
    job["spec"].pop("schedulerName", None)
    assert built(job)["spec"]["schedulerName"] == "volcano"


def test_the_templates_own_words_win_where_they_may() -> None:
    template = make.task("a", pod={"schedulerName": "mine"})
    template["template"]["metadata"] = {"labels": {"app": "x", "volcano.sh/task-spec": "lie"}}
    pod = built(make.job("demo", template, priorityClassName="high"))
    assert pod["spec"]["schedulerName"] == "mine"
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["metadata"]["labels"]["app"] == "x"
    assert pod["metadata"]["labels"]["volcano.sh/task-spec"] == "a"


def test_a_pod_has_nothing_that_its_template_leaves_empty() -> None:
    """Upstream reads templates into types that do not tell nothing from empty; a server fills in what is missing."""
    empty = {"env": [], "command": [], "workingDir": "", "tty": False, "imagePullPolicy": "", "volumeMounts": None}
    told = {"resources": {"limits": {}}, "securityContext": {"runAsUser": 0, "capabilities": {"add": []}}}
    spec = {
        "containers": [{**make.container("main"), **empty, **told}],
        "initContainers": [],
        "restartPolicy": "",
        "nodeSelector": {},
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    pod = built(make.job("demo", make.task("a", pod=spec)))
    kept = {"resources": {}, "securityContext": {"runAsUser": 0, "capabilities": {}}}
    assert pod["spec"] == {
        "containers": [{**make.container("main"), **kept}],
        "schedulerName": "volcano",
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }


def test_a_pod_of_which_an_amount_is_none_is_left_to_a_server_to_refuse() -> None:
    container = make.container("main", env=[], resources={"requests": {"cpu": "much"}})
    pod = built(make.job("demo", make.task("a", pod={"containers": [container]})))
    assert pod["spec"]["containers"] == [container]


def test_building_a_pod_leaves_the_job_as_it_was() -> None:
    job = make.job("demo", make.task("a"))
    built(job, claims={"data": "/data"})
    assert job == make.job("demo", make.task("a"))


def test_partitions_number_their_pods() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 2}
    job = make.job("demo", make.task("a", 6, partitionPolicy=policy))
    ids = [built(job, index)["metadata"]["labels"]["volcano.sh/partition-id"] for index in range(6)]
    assert ids == ["0", "0", "1", "1", "2", "2"]


@pytest.mark.parametrize(("size", "index", "part"), [(2, 0, 0), (2, 1, 0), (2, 2, 1), (2, 3, 1), (5, 10, 2), (0, 7, 0)])
def test_a_partition_is_the_index_divided_by_its_size(size: int, index: int, part: int) -> None:
    task = make.task("a", 12, partitionPolicy={"totalPartitions": 1, "partitionSize": size})
    assert read_job(make.job("demo", task)).tasks[0].partition_of(index) == part


def test_claims_are_mounted_in_containers_but_not_in_init_containers() -> None:
    job = make.job("demo", make.task("a", pod={"initContainers": [make.container("prep")]}))
    spec = built(job, claims={"data": "/data"})["spec"]
    (volume,) = spec["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data"}
    assert spec["containers"][0]["volumeMounts"] == [{"name": volume["name"], "mountPath": "/data"}]
    assert "volumeMounts" not in spec["initContainers"][0]


def test_only_missing_pods_are_made_and_only_behind_the_gate() -> None:
    job = make.job("demo", make.task("a", 3))
    pods = read_pods([make.job_pod(job, "a", 1)])
    assert [index for _, index in plan(read_job(job), pods, may_create=True).create] == [0, 2]
    assert plan(read_job(job), pods, may_create=False).create == ()


def test_scaling_down_removes_the_highest_indexes() -> None:
    job = make.job("demo", make.task("a", 1))
    pods = read_pods([make.job_pod(job, "a", index) for index in range(3)])
    assert names(plan(read_job(job), pods, may_create=True).surplus) == ["demo-a-1", "demo-a-2"]


def test_what_a_kill_did_not_get_to_delete_is_deleted_later() -> None:
    job = make.job("demo", make.task("a", 4))
    job["status"] = {"version": 2}
    pods = read_pods(
        [
            make.job_pod(job, "a", 0, "Running", version=1),
            make.job_pod(job, "a", 1, "Failed", version=1),
            make.job_pod(job, "a", 2, "Succeeded", version=0),
            make.job_pod(job, "a", 3, "Running", version=2),
        ]
    )
    assert names(plan(read_job(job), pods, may_create=True).delete) == ["demo-a-0", "demo-a-1"]


def test_a_task_waits_for_those_it_depends_on() -> None:
    def missing(iteration: str, *phases: str) -> list[str]:
        tasks = [make.task("a"), make.task("b"), make.task("c", dependsOn={"name": ["a", "b"], "iteration": iteration})]
        job = make.job("demo", *tasks)
        pods = read_pods([make.job_pod(job, name, 0, phase) for name, phase in zip("ab", phases, strict=True)])
        return [task.name for task, _ in plan(read_job(job), pods, may_create=True).create]

    assert missing("all", "Running", "Pending") == []
    assert missing("all", "Running", "Succeeded") == ["c"]
    assert missing("any", "Running", "Pending") == ["c"]


def test_the_last_attempt_keeps_what_finished() -> None:
    job = make.job("demo", make.task("a", 2), maxRetry=2)
    pods = read_pods([make.job_pod(job, "a", 0, "Failed"), make.job_pod(job, "a", 1, "Running")])
    first = victims(read_job(job), pods, Operation.KILL_ALL, "RestartJob", None)
    assert names(first) == ["demo-a-0", "demo-a-1"]
    job["status"] = {"retryCount": 1}
    assert names(victims(read_job(job), pods, Operation.KILL_ALL, "RestartJob", None)) == ["demo-a-1"]


def test_target_kills_reach_their_target_only() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    job = make.job("demo", make.task("a", 4, partitionPolicy=policy), make.task("b", 1))
    pods = read_pods([*(make.job_pod(job, "a", index) for index in range(4)), make.job_pod(job, "b", 0)])
    what = Occurrence("PodFailed", 0, task="a", pod="demo-a-2", partition=1)

    def hit(action: str) -> list[str]:
        return names(victims(read_job(job), pods, Operation.KILL_TARGET, action, what))

    assert hit("RestartPod") == ["demo-a-2"]
    assert hit("RestartPartition") == ["demo-a-2", "demo-a-3"]
    assert hit("RestartTask") == ["demo-a-0", "demo-a-1", "demo-a-2", "demo-a-3"]
    assert victims(read_job(job), pods, Operation.KILL_TARGET, "RestartPod", None) == []


def test_a_pod_of_ones_own_shares_nothing_with_the_job() -> None:
    job = make.job("demo", make.task("worker", 1))
    template = PodTemplate(read_job(job), read_job(job).tasks[0])
    before = msgspec.json.encode(job)
    for _ in range(2):
        pod = template.build(0, claims={"data": "/data"}, rng=random.Random(0), own=False)
        assert [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]] == ["/data"]
        own = template.build(0, claims={}, rng=random.Random(0))
        own["spec"]["containers"][0]["env"] = [{"name": "A"}]
        own["metadata"]["ownerReferences"][0]["name"] = "other"
    shared = template.build(0, claims={}, rng=random.Random(0), own=False)
    assert shared == template.build(0, claims={}, rng=random.Random(0))
    assert msgspec.json.encode(job) == before
