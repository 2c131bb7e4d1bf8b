"""All or nothing: a gang that does not fit starts no pod and says what is missing; when room comes, it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster, start_cluster
from tests.eventually import eventually

GANG = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  minAvailable: COUNT
  tasks:
    - name: main
      replicas: COUNT
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers: [{name: main, image: any, command: [sleep, "600"], resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture
def cluster(data_dir: Path) -> Iterator[LocalCluster]:
    with start_cluster(data_dir, "--node-cpu", "4") as running:
        yield running


def submit(cluster: LocalCluster, name: str, count: int) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=GANG.replace("NAME", name).replace("COUNT", str(count)))


def test_a_gang_waits_whole_and_starts_when_room_comes(cluster: LocalCluster) -> None:
    submit(cluster, "first", 1)
    cluster.wait_for("vcjob/first", ".status.state.phase", "Running")
    submit(cluster, "second", 4)

    def explained() -> str:
        text = cluster.hekla("why", "second").stdout
        assert "cpu" in text.lower(), text
        return text

    eventually(explained)
    # `why` works it out by itself; the scheduler's own word comes when it has tried.
    eventually(lambda: "nschedulable" in cluster.kubectl("describe", "podgroup", "-l", "", check=False))
    eventually(lambda: "NotEnoughResources" in cluster.hekla("job", "list").stdout)
    placed = [pod for pod in cluster.get("pod")["items"] if pod["spec"].get("nodeName")]
    assert [pod["metadata"]["name"] for pod in placed] == ["first-main-0"]

    cluster.hekla("job", "delete", "first")
    cluster.wait_for("vcjob/second", ".status.state.phase", "Running")
    assert len([pod for pod in cluster.get("pod")["items"] if pod["status"]["phase"] == "Running"]) == 4
