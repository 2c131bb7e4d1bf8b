from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hekla.api.kinds import Obj
from hekla.node.simulated import EXIT_CODE, SECONDS, judge
from tests.node.test_lifecycle import NOW


def a_pod(policy: str = "Never", **annotations: str) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "0123456789ab", "annotations": annotations},
        "spec": {"nodeName": "s", "restartPolicy": policy, "containers": [{"name": "main"}]},
    }


def after(pod: Obj, seconds: float) -> Any:
    """The verdict `seconds` later, with its status taken over."""
    verdict = judge(pod, NOW + timedelta(seconds=seconds))
    if verdict.status is not None:
        pod["status"] = verdict.status
    return verdict


def test_a_bound_pod_runs_at_once_and_ends_on_time() -> None:
    pod = a_pod(**{SECONDS: "30", EXIT_CODE: "3"})
    assert after(pod, 0).again_after == 30
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["podIP"].startswith("10.")
    assert after(pod, 29).again_after == pytest.approx(1)
    assert after(pod, 30).status["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert after(pod, 99).status is None


def test_without_a_time_it_runs_until_it_is_deleted() -> None:
    pod = a_pod()
    assert after(pod, 0).again_after is None
    assert after(pod, 10_000).status is None
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert after(pod, 10_001).status["phase"] == "Succeeded"
    assert after(pod, 10_001).confirm_deletion


def test_a_pod_deleted_before_it_ran_is_gone_at_once() -> None:
    pod = a_pod()
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert after(pod, 0).confirm_deletion


def test_a_failure_is_run_again_where_the_policy_says_so() -> None:
    pod = a_pod("OnFailure", **{SECONDS: "10", EXIT_CODE: "1"})
    after(pod, 0)
    assert after(pod, 10).again_after == 10
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert after(a_pod("OnFailure", **{SECONDS: "0"}), 0).status["phase"] == "Running"
