from __future__ import annotations

from typing import Any

import pytest

from hekla.controllers.job.model import read_job
from hekla.controllers.job.podgroup import build_pod_group, min_resources, pending_message, spec_patch
from tests import make

PRIORITIES = {"high": 2}

VECTORS = [
    (1, 1, 2, "", "2", "150m"),
    (None, 1, 3, "", "3", "200m"),
    (1, None, 3, "", "3", "250m"),
    (1, 1, 3, "master", "3", "200m"),
    (1, 1, 3, "worker", "3", "250m"),
    (0, 1, 3, "worker", "3", "250m"),
    (1, 1, 4, "worker", "4", "300m"),
    (None, 1, 4, "worker", "4", "300m"),
    (1, None, 2, "", "2", "100m"),
    (None, 1, 2, "", "2", "100m"),
]


@pytest.mark.parametrize(("master", "worker", "fewest", "urgent", "pods", "cpu"), VECTORS)
def test_min_resources_are_those_of_the_pods_that_start_first(
    master: int | None, worker: int | None, fewest: int, urgent: str, pods: str, cpu: str
) -> None:
    job = make.job("demo", make.task(), minAvailable=fewest)
    job["spec"]["tasks"] = _tasks(master, worker, urgent)
    assert min_resources(read_job(job), PRIORITIES) == {
        "count/pods": pods,
        "pods": pods,
        "cpu": cpu,
        "requests.cpu": cpu,
    }


def _tasks(master: int | None, worker: int | None, urgent: str) -> list[dict[str, Any]]:
    tasks = []
    for name, cpu, least in (("master", "50m", master), ("worker", "100m", worker)):
        one = make.task(name, 2, cpu=cpu)
        if least is not None:
            one["minAvailable"] = least
        if name == urgent:
            one["template"]["spec"]["priorityClassName"] = "high"
        tasks.append(one)
    return tasks


def test_quota_keys_cover_requests_limits_and_extended_resources() -> None:
    amounts = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": "1", "hugepages-test": "2000"}
    containers = [make.container(name, resources={"requests": amounts, "limits": amounts}) for name in ("a", "b")]
    job = make.job("demo", make.task(pod={"containers": containers}))
    assert min_resources(read_job(job), {}) == {
        "count/pods": "1",
        "cpu": "2",
        "hugepages-test": "4k",
        "limits.cpu": "2",
        "limits.memory": "2000Mi",
        "memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "pods": "1",
        "requests.cpu": "2",
        "requests.hugepages-test": "4k",
        "requests.memory": "2000Mi",
        "requests.nvidia.com/gpu": "2",
    }


def test_requests_are_not_taken_from_limits() -> None:
    gpu = make.container(resources={"limits": {"nvidia.com/gpu": "1"}})
    job = make.job("demo", make.task(pod={"containers": [gpu]}))
    assert min_resources(read_job(job), {}) == {"count/pods": "1", "pods": "1"}


def test_the_group_carries_what_the_job_says() -> None:
    job = make.job(
        "demo",
        make.task("a", 2),
        meta={"labels": {"team": "x"}, "annotations": {"volcano.sh/sla-waiting-time": "1h"}},
        priorityClassName="high",
        networkTopology={"mode": "soft", "highestTierAllowed": 2},
    )
    group = build_pod_group(read_job(job), {})
    assert group["metadata"]["name"] == "demo-uid-demo"
    assert group["metadata"]["labels"] == {"team": "x"}
    assert group["metadata"]["annotations"] == {"volcano.sh/sla-waiting-time": "1h"}
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"a": 2},
        "queue": "default",
        "priorityClassName": "high",
        "minResources": {"count/pods": "2", "pods": "2"},
        "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
    }


def test_partitions_become_subgroups() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 3, "minPartitions": 2, "networkTopology": {"mode": "hard"}}
    job = make.job("demo", make.task("a", 9, partitionPolicy=policy, minAvailable=6))
    (subgroup,) = build_pod_group(read_job(job), {})["spec"]["subGroupPolicy"]
    assert subgroup == {
        "name": "a",
        "subGroupSize": 3,
        "minSubGroups": 2,
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
        "networkTopology": {"mode": "hard"},
    }


@pytest.mark.parametrize(
    ("replicas", "parts", "least", "members"),
    [(6, (2, 3, 0), None, 6), (6, (2, 3, 1), None, 3), (9, (3, 3, 2), 6, 6), (4, None, None, 4), (4, None, 0, 0)],
)
def test_a_task_has_as_many_members_as_it_or_its_partitions_say(
    replicas: int, parts: tuple[int, int, int] | None, least: int | None, members: int
) -> None:
    task = make.task("a", replicas)
    if parts:
        task["partitionPolicy"] = dict(zip(("totalPartitions", "partitionSize", "minPartitions"), parts, strict=True))
    job = make.job("demo", task)
    job["spec"]["tasks"][0]["minAvailable"] = least
    assert build_pod_group(read_job(job), {})["spec"]["minTaskMember"] == {"a": members}


def test_an_unchanged_group_is_not_written() -> None:
    wanted = build_pod_group(read_job(make.job()), {})
    assert spec_patch(wanted, {**wanted, "spec": {**wanted["spec"], "queue": "of-the-namespace"}}) is None


def test_scaling_follows_into_the_group_and_drops_what_is_gone() -> None:
    before = build_pod_group(read_job(make.job("demo", make.task("a", 1, cpu="1"))), {})
    after = build_pod_group(read_job(make.job("demo", make.task("a", 2))), {})
    assert spec_patch(after, before) == {
        "spec": {
            "minMember": 2,
            "minTaskMember": {"a": 2},
            "minResources": {"count/pods": "2", "pods": "2", "cpu": None, "requests.cpu": None},
        }
    }


def condition(kind: str, at: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": at, "message": "test message"}


def test_a_waiting_gang_says_why() -> None:
    job = read_job(make.job("job1"))
    group = make.pod_group("job1")
    group["status"]["conditions"] = [condition("Scheduled", "2030-01-01T00:00:00Z")]
    assert pending_message(job, group) is None
    group["status"]["conditions"].append(condition("Unschedulable", "2030-01-01T00:00:05Z"))
    assert pending_message(job, group) == "PodGroup default:job1 unschedulable, reason: test message"


@pytest.mark.parametrize(("phase", "waits"), [("Running", False), ("Completed", False), ("Pending", True)])
def test_of_two_words_of_one_second_the_one_counts_that_the_phase_bears_out(phase: str, waits: bool) -> None:
    group = make.pod_group("demo", phase=phase)
    both = [condition(kind, "2030-01-01T00:00:00Z") for kind in ("Unschedulable", "Scheduled")]
    for conditions in (both, both[::-1]):
        group["status"]["conditions"] = conditions
        assert (pending_message(read_job(make.job()), group) is not None) == waits
