from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.node.runtime import Attempt, ContainerRuntime, PodRuntime, Reason, Waiting
from hekla.node.status import pod_status, qos_class, used_by_container
from tests.node.test_lifecycle import NOW, a_pod, ran


def status_of(pod: Obj, *containers: ContainerRuntime, **facts: Any) -> Obj:
    pod["metadata"].setdefault("uid", "u")
    return pod_status(pod, PodRuntime({each.name: each for each in containers}, **facts), NOW)


def conditions(status: Obj) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


@pytest.mark.parametrize(
    ("policy", "codes", "phase"),
    [
        ("Never", [()], "Pending"),
        ("Never", [(None,)], "Running"),
        ("Never", [(0,)], "Succeeded"),
        ("Never", [(1,)], "Failed"),
        ("Never", [(0,), (None,)], "Running"),
        ("Never", [(0,), (3,)], "Failed"),
        ("OnFailure", [(1,)], "Running"),
        ("OnFailure", [(1, 0)], "Succeeded"),
        ("Always", [(0,)], "Running"),
        ("Always", [(None,), ()], "Pending"),
    ],
)
def test_the_phase_follows_the_containers(policy: str, codes: list[tuple[int | None, ...]], phase: str) -> None:
    names = tuple(f"c{index}" for index in range(len(codes)))
    found = status_of(a_pod(policy, main=names), *(ran(name, *each) for name, each in zip(names, codes)))
    assert found["phase"] == phase


def test_a_running_pod_is_ready_and_a_finished_one_is_not() -> None:
    running = status_of(a_pod(), ran("main", None), address="10.77.0.2")
    assert conditions(running) == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
    )
    assert running["podIPs"] == [{"ip": "10.77.0.2"}]
    assert conditions(status_of(a_pod(), ran("main", 0)))["Ready"] == "False"


def test_a_container_in_back_off_says_how_long_and_keeps_its_last_state() -> None:
    found = status_of(a_pod("Always"), ran("main", 1, 1))["containerStatuses"][0]
    assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert found["state"]["waiting"]["message"].startswith("back-off 10s restarting failed container=main")
    assert found["lastState"]["terminated"]["exitCode"] == 1
    assert found["restartCount"] == 1


def test_a_waiting_reason_is_shown() -> None:
    waiting = ContainerRuntime("main", waiting=Waiting(Reason.CONFIG_ERROR, 'configmap "x" not found'))
    found = status_of(a_pod(), waiting)
    assert found["phase"] == "Pending"
    assert found["containerStatuses"][0]["state"]["waiting"]["message"] == 'configmap "x" not found'


def test_main_containers_wait_for_initialisation() -> None:
    found = status_of(a_pod(init=("i",)), ran("i", None))
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(found)["Initialized"] == "False"


def test_a_verdict_on_the_pod_stands_whatever_its_containers_did() -> None:
    found = status_of(a_pod("Always"), ran("main", 0), failed=Waiting(Reason.DEADLINE, "too long"))
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "DeadlineExceeded", "too long")


def test_a_deleted_pod_whose_containers_ended_is_over_whatever_its_policy() -> None:
    pod = a_pod("Always")
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert status_of(pod, ran("main", 143))["phase"] == "Failed"


def test_conditions_of_others_are_kept_and_times_move_only_with_the_status() -> None:
    pod = a_pod()
    pod["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    pod["status"] = first = status_of(pod, ran("main", None))
    assert conditions(first)["DisruptionTarget"] == "True"
    runtime = PodRuntime({"main": ran("main", None)})
    assert pod_status(pod, runtime, NOW + timedelta(hours=1)) == first


@given(st.sampled_from(["Never", "OnFailure", "Always"]), st.lists(st.integers(0, 2), max_size=4), st.booleans())
def test_telling_the_same_truth_twice_changes_nothing(policy: str, codes: list[int], runs: bool) -> None:
    pod = a_pod(policy)
    pod["metadata"]["uid"] = "u"
    runtime = PodRuntime({"main": ran("main", *codes, *([None] if runs else []))})
    pod["status"] = pod_status(pod, runtime, NOW)
    assert pod_status(pod, runtime, NOW) == pod["status"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_the_quality_of_service_follows_requests_and_limits(resources: Obj, expected: str) -> None:
    assert qos_class({"spec": {"containers": [{"name": "main", "resources": resources}]}}) == expected


def test_what_containers_used_is_told_over_all_their_attempts_once_one_has_ended() -> None:
    span = {"startedAt": "2030-01-01T00:00:00.500000000Z", "finishedAt": "2030-01-01T00:00:02.000000000Z"}
    ended = [
        Attempt(0, "", None, {"code": 1, **span, "used": {"cpuSeconds": 1.0, "memory": 50}}),
        Attempt(1, "", None, {"code": 0, **span, "used": {"cpuSeconds": 0.25, "memory": 70}}),
    ]
    running = Attempt(0, "", {"shim": None, "container": None, "startedAt": ""})  # type: ignore[typeddict-item]
    runtime = PodRuntime(
        {"main": ContainerRuntime("main", tuple(ended)), "other": ContainerRuntime("other", (running,))}
    )
    assert json.loads(used_by_container(runtime)) == {"main": {"cpuSeconds": 1.25, "seconds": 3.0, "memory": 70}}
    assert used_by_container(PodRuntime({"other": ContainerRuntime("other", (running,))})) == ""
