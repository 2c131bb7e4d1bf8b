from __future__ import annotations

import json
from typing import Any

from hekla.cli.usage import usage_by_task

JOB = {"spec": {"tasks": [{"name": "worker"}, {"name": "chief"}, {"name": "absent"}]}}


def pod(task: str, used: object, *, requests: dict[str, str] | None = None) -> dict[str, Any]:
    text = used if isinstance(used, str) else json.dumps(used)
    return {
        "metadata": {"name": task, "annotations": {"volcano.sh/task-spec": task}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests or {}}}]},
        "status": {"conditions": [{"type": "Ready"}, {"type": "hekla.dev/Used", "status": "True", "message": text}]},
    }


def test_cpu_is_the_average_of_the_pods_and_memory_the_most_of_any() -> None:
    pods = [
        pod("worker", {"main": {"cpuSeconds": 5, "seconds": 10, "memory": 100 << 20}}, requests={"cpu": "2"}),
        pod("worker", {"main": {"cpuSeconds": 15, "seconds": 10, "memory": 300 << 20}}, requests={"cpu": "2"}),
        pod("chief", {"main": {"cpuSeconds": 0.1, "seconds": 10, "memoryBelow": 40 << 20}}, requests={"memory": "1Gi"}),
    ]
    assert [one.cells() for one in usage_by_task(JOB, pods)] == [
        ("worker", "2", "1", "-", "300Mi"),
        ("chief", "-", "10m", "1Gi", "<40Mi"),
    ]


def test_what_its_init_containers_used_is_not_the_pods() -> None:
    first = {"cpuSeconds": 9, "seconds": 1, "memory": 9}
    used = {"main": {"cpuSeconds": 1, "seconds": 2, "memory": 5}, "prepare": first}
    assert usage_by_task(JOB, [pod("chief", used)])[0].cells() == ("chief", "-", "500m", "-", "5")


def test_what_somebody_else_may_have_written_is_not_believed_blindly() -> None:
    for nonsense in ("", "[]", "{", '{"main": 3}', '{"main": {}}', "null", '{"main": {"cpuSeconds": "x"}}'):
        assert usage_by_task(JOB, [pod("chief", nonsense)]) == []


def test_a_task_whose_pods_are_gone_is_shown_with_what_it_asked_for() -> None:
    asks = {"resources": {"requests": {"cpu": "3", "memory": "2Gi"}}}
    worker = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "main", **asks}]}}}
    job = {"spec": {"tasks": [{"name": "chief", "replicas": 1}, worker, {"name": "none", "replicas": 0}]}}
    chief = pod("chief", {"main": {"cpuSeconds": 1, "seconds": 2, "memory": 5}})
    found = usage_by_task(job, [chief])
    assert [one.cells() for one in found] == [("chief", "-", "500m", "-", "5"), ("worker", "3", "-", "2Gi", "-")]
    assert found[1].document() == {"cpuAsked": 3.0, "memoryAskedBytes": 2 << 30}


def test_where_nothing_was_measured_there_is_no_table() -> None:
    assert usage_by_task({"spec": {"tasks": [{"name": "worker", "replicas": 2}]}}, [pod("worker", {})]) == []
