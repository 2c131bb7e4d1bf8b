from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hekla.api.kinds import Obj
from hekla.api.quota_usage import counted_resource, given_up_at, unspecified, usage_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", "pods"),
        ("cpu", "pods"),
        ("limits.ephemeral-storage", "pods"),
        ("hugepages-2Mi", "pods"),
        ("requests.hugepages-2Mi", "pods"),
        ("requests.example.com/gpu", "pods"),
        ("example.com/gpu", ""),
        ("requests.kubernetes.io/thing", ""),
        ("count/pods", "pods"),
        ("count/jobs.batch.volcano.sh", "jobs.batch.volcano.sh"),
        ("count/events", ""),
        ("services.nodeports", "services"),
        ("requests.storage", "persistentvolumeclaims"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("gold.storageclass.storage.k8s.io/other", ""),
        ("secrets", "secrets"),
    ],
)
def test_a_name_tells_whose_objects_are_counted(name: str, resource: str) -> None:
    assert counted_resource(name) == resource


def shown(resource: str, obj: Obj, now: datetime = NOW) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage_of(resource, obj, now).items()}


def pod(**resources: dict[str, str]) -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "resources": resources}]}}


def test_a_pod_uses_what_it_requests_and_may_come_to_use() -> None:
    assert shown("pods", pod(requests={"cpu": "500m"}, limits={"cpu": "1", "memory": "1Gi"})) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "500m",
        "requests.cpu": "500m",
        "limits.cpu": "1",
        "limits.memory": "1Gi",
    }


def test_a_pod_that_has_ended_or_should_long_be_gone_is_only_there() -> None:
    ended = {**pod(), "status": {"phase": "Failed"}}
    assert shown("pods", ended) == {"count/pods": "1"}
    going = pod()
    going["metadata"] |= {"deletionTimestamp": "2030-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30}
    assert given_up_at(going) == NOW + timedelta(seconds=30)
    assert "pods" in shown("pods", going, NOW + timedelta(seconds=30))
    assert "pods" not in shown("pods", going, NOW + timedelta(seconds=31))


def test_a_claim_of_a_class_counts_for_the_class_too_and_holds_what_it_was_promised() -> None:
    asked = {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {}, "spec": asked, "status": {"allocatedResources": {"storage": "2Gi"}}}
    assert shown("persistentvolumeclaims", claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "2Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
    }


def test_of_other_kinds_nothing_is_looked_at() -> None:
    assert shown("widgets.example.org", {}) == {"count/widgets.example.org": "1"}
    assert shown("secrets", {}) == {"count/secrets": "1", "secrets": "1"}


def test_only_cpu_and_memory_have_to_be_said() -> None:
    names = frozenset({"cpu", "limits.memory", "requests.ephemeral-storage", "pods"})
    assert unspecified(pod(), names) == "cpu for: main; limits.memory for: main"
    assert unspecified(pod(requests={"cpu": "0"}, limits={"memory": "1"}), names) == ""
