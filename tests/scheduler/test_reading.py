"""Reading objects: requests, statuses, priorities."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.scheduler.podreading import PodReader, form_of
from hekla.scheduler.reading import Shapes, read_amounts, read_group, read_queue
from hekla.scheduler.rows import Pod, PodStatus, show_amount


def read_pod(obj: dict[str, Any]) -> Pod:
    return PodReader(("volcano",)).read(form_of(obj))


def container(cpu: int | str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {key: str(value) for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"resources": {"requests": requests}, **more}


def sidecar(cpu: int) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("init", "apps", "cpu"),
    [
        ([container(2), container(2)], [container(1), container(2)], 3),
        ([container(5), sidecar(1), sidecar(2), sidecar(3)], [container(1)], 7),
        ([container(5), sidecar(1), sidecar(2), container(5), sidecar(3)], [container(1)], 8),
        ([sidecar(10), container(200)], [container(100)], 210),
    ],
)
def test_a_pod_asks_for_its_hungriest_moment(init: list[Any], apps: list[Any], cpu: int) -> None:
    shape = Shapes().shape_of({"initContainers": init, "containers": apps})
    assert shape.request["cpu"] == cpu * 1000
    assert shape.request["pods"] == 1


def test_overhead_comes_on_top_and_pod_level_requests_replace() -> None:
    spec = {"containers": [container(1)], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"}}
    assert Shapes().shape_of(spec).request["cpu"] == 3250


def test_a_pod_that_asks_for_nothing_is_best_effort_but_scorers_assume_something() -> None:
    shape = Shapes().shape_of({"containers": [container(), container("100m")]})
    assert not shape.best_effort
    empty = Shapes().shape_of({"containers": [container()]})
    assert empty.best_effort
    assert (empty.assumed_cpu, empty.assumed_memory) == (100, 200 * 1024 * 1024)


def test_pods_of_one_template_share_a_shape_and_its_constraints() -> None:
    shapes = Shapes()
    one, other = ({"containers": [container(cpu)], "nodeSelector": {"a": "b"}} for cpu in (1, 2))
    assert shapes.shape_of(one) is shapes.shape_of(dict(one))
    assert shapes.shape_of(one) is not shapes.shape_of(other)
    assert shapes.shape_of(one).constraints is shapes.shape_of(other).constraints


def test_resource_names_have_their_units() -> None:
    amounts = read_amounts(
        {
            "cpu": "1500m", "memory": "2Gi", "pods": "3", "nvidia.com/gpu": "2", "count/x": "9", "storage": "1",
            "requests.cpu": "1500m", "limits.cpu": "2", "requests.nvidia.com/gpu": "2",
        }
    )  # fmt: skip
    assert amounts == {"cpu": 1500, "memory": 2 << 30, "pods": 3, "nvidia.com/gpu": 2000}
    shown = [show_amount(name, amount) for name, amount in amounts.items()]
    assert shown == ["1500m", "2Gi", "3", "2"]


@pytest.mark.parametrize(
    ("phase", "deleting", "node", "status"),
    [
        ("Running", True, "n", PodStatus.RELEASING),
        ("Running", False, "n", PodStatus.RUNNING),
        ("Pending", True, "", PodStatus.RELEASING),
        ("Pending", False, "", PodStatus.PENDING),
        ("Pending", False, "n", PodStatus.BOUND),
        ("Unknown", True, "n", PodStatus.UNKNOWN),
        ("Succeeded", True, "n", PodStatus.SUCCEEDED),
        ("Failed", False, "n", PodStatus.FAILED),
        ("Strange", False, "", PodStatus.UNKNOWN),
        (None, False, "", PodStatus.PENDING),
    ],
)
def test_the_status_of_a_pod(phase: str | None, deleting: bool, node: str, status: PodStatus) -> None:
    meta = {"name": "p", **({"deletionTimestamp": "2030-01-01T00:00:00Z"} if deleting else {})}
    obj = {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}
    assert read_pod(obj).status is status


@pytest.mark.parametrize(
    ("spec", "annotations", "priority"),
    [
        ({}, {}, 1), ({"priority": 0}, {}, 0), ({"priority": 5}, {"volcano.sh/task-priority": "9"}, 9),
        ({"priority": 5}, {"volcano.sh/task-priority": "high"}, 5), ({}, {"volcano.sh/task-priority": "9" * 40}, 1),
        ({"priority": 5}, {"volcano.sh/task-priority": "-3"}, -3), ({}, {"volcano.sh/task-priority": "+7"}, 7),
        ({"priority": 5}, {"volcano.sh/task-priority": "1_000"}, 5), ({}, {"volcano.sh/task-priority": " 9"}, 1),
    ],
)  # fmt: skip
def test_the_priority_of_a_pod(spec: dict[str, Any], annotations: dict[str, str], priority: int) -> None:
    obj = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
    assert read_pod(obj).priority == priority


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable"),
    [
        ({}, {}, True), ({"volcano.sh/preemptable": "false"}, {}, False), ({"volcano.sh/preemptable": "T"}, {}, True),
        ({}, {"volcano.sh/preemptable": "0"}, False), ({"volcano.sh/preemptable": "maybe"}, {}, False),
        ({"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "false"}, True),
        ({"volcano.sh/preemptable": ""}, {}, False),
        ({"volcano.sh/preemptable": ""}, {"volcano.sh/preemptable": "true"}, False),
        ({}, {"volcano.sh/preemptable": ""}, False),
    ],
)  # fmt: skip
def test_a_pod_may_be_made_to_leave_unless_it_says_otherwise(
    annotations: dict[str, str], labels: dict[str, str], preemptable: bool
) -> None:
    pod = read_pod({"metadata": {"name": "p", "annotations": annotations, "labels": labels}, "spec": {}})
    assert pod.preemptable is preemptable


def test_numbered_pods_are_ordered_by_number() -> None:
    names = ["job-worker-10", "job-worker-2", "other"]
    pods = [read_pod({"metadata": {"name": name}, "spec": {}}) for name in names]
    assert [pod.name for pod in sorted(pods, key=lambda pod: pod.order)] == ["job-worker-2", "job-worker-10", "other"]


def test_a_queue_nobody_has_looked_at_is_open() -> None:
    queue = read_queue({"metadata": {"name": "q"}, "spec": {"weight": 0}})
    assert (queue.state, queue.weight, queue.reclaimable) == ("Open", 0, True)


def test_pods_share_what_is_the_same_down_to_the_spelling_of_their_templates() -> None:
    reader = PodReader(("volcano",))
    spec = {"containers": [container("1")], "nodeSelector": {"a": "b", "c": "d"}}
    spelled_differently = {"nodeSelector": {"c": "d", "a": "b"}, "containers": [container("1", image="other")]}
    one, other = (
        reader.read(form_of({"metadata": {"name": "p", "namespace": "n", "labels": {"x": "y"}}, "spec": each}))
        for each in (spec, spelled_differently)
    )
    assert one.shape is other.shape
    assert one.labels is other.labels


def test_what_a_pod_wants_of_others_follows_its_own_labels() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    reader = PodReader(("volcano",))
    companies = [
        reader.read(
            form_of({"metadata": {"name": "p", "labels": {"app": label}}, "spec": {"affinity": affinity}})
        ).shape.constraints.company
        for label in ("a", "b", "a")
    ]
    assert [company is not None and company.seeks_itself for company in companies] == [True, False, True]


def test_host_ports_are_those_of_containers_that_run_as_long_as_the_pod() -> None:
    def with_port(port: int, **more: Any) -> dict[str, Any]:
        return container(ports=[{"containerPort": port, "hostPort": port}], **more)

    init = [with_port(80), with_port(81, restartPolicy="Always")]
    shape = Shapes().shape_of({"initContainers": init, "containers": [with_port(82)]})
    assert {port.port for port in shape.constraints.ports} == {81, 82}


@pytest.mark.parametrize(
    ("operations", "owned", "in_vain"),
    [
        (["Update", "Update"], True, True),
        (["Update"], False, False),
        (["Update", "Apply"], True, False),
        ([], True, False),
    ],
)
def test_who_wrote_what_matters_only_where_somebody_applies(operations: list[str], owned: bool, in_vain: bool) -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    metadata = {
        "name": "a",
        "managedFields": [{"manager": str(number), "operation": one} for number, one in enumerate(operations)],
        "ownerReferences": [owner] * owned,
    }
    assert read_group({"metadata": metadata}, "default").tracked_in_vain is in_vain
