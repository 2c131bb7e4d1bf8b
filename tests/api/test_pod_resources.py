from __future__ import annotations

from hekla.api.pod_resources import as_text, pod_limits, pod_requests, quota_usage
from tests import make


def requests(**amounts: str) -> dict[str, object]:
    return {"requests": amounts}


def test_containers_add_up_and_the_largest_init_container_counts() -> None:
    spec = {
        "containers": [make.container("a", resources=requests(cpu="250m", memory="64Mi")), make.container("b")],
        "initContainers": [make.container("prep", resources=requests(cpu="2", memory="32Mi"))],
    }
    assert as_text(pod_requests(spec)) == {"cpu": "2", "memory": "64Mi"}


def test_a_sidecar_runs_beside_the_containers_and_the_init_containers_after_it() -> None:
    spec = {
        "containers": [make.container("a", resources=requests(cpu="1"))],
        "initContainers": [
            make.container("side", restartPolicy="Always", resources=requests(cpu="500m")),
            make.container("prep", resources=requests(cpu="2")),
        ],
    }
    assert as_text(pod_requests(spec)) == {"cpu": "2500m"}


def test_overhead_comes_on_top() -> None:
    spec = {"containers": [make.container("a", resources=requests(cpu="1"))], "overhead": {"cpu": "100m"}}
    assert as_text(pod_requests(spec)) == {"cpu": "1100m"}
    assert pod_limits(spec) == {}


def test_limits_have_a_name_of_their_own_in_a_quota() -> None:
    spec = {"containers": [make.container("a", resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}})]}
    assert as_text(quota_usage(spec)) == {"count/pods": "1", "limits.cpu": "1", "pods": "1"}
