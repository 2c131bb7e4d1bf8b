"""What people hear of a job that is started again at once, and of one that has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.local_cluster import LocalCluster, start_cluster
from tests.eventually import eventually

STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with start_cluster(tmp_path_factory.mktemp("stories") / "data", "--outgoing", "none") as running:
        yield running


def create(cluster: LocalCluster, name: str, script: str) -> None:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 300, "containers": [container]}
    spec = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pod}}]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))


def test_a_job_started_again_at_once_says_whom_it_waits_for(cluster: LocalCluster) -> None:
    create(cluster, "again", STUBBORN)
    eventually(lambda: cluster.kubectl("logs", "again-t-0", check=False) == "up\n")
    cluster.hekla("job", "delete", "again")
    create(cluster, "again", STUBBORN)
    said = "WaitingForPredecessor: pods of an earlier job called again are still ending: again-t-0"
    eventually(lambda: said in cluster.hekla("why", "again").stdout)
    assert said in cluster.hekla("job", "view", "again").stdout
    assert " WaitingForPredecessor " in cluster.hekla("job", "list").stdout
    cluster.kubectl("delete", "pod", "again-t-0", "--now")
    cluster.wait_for("vcjob/again", ".status.state.phase", "Running")
    assert "WaitingForPredecessor" not in cluster.hekla("job", "list").stdout
    cluster.hekla("job", "delete", "again")
    cluster.kubectl("delete", "pod", "again-t-0", "--now")


def test_the_story_of_a_job_has_its_end(cluster: LocalCluster) -> None:
    create(cluster, "ends", "exit 3")
    cluster.wait_for("vcjob/ends", ".status.state.phase", "Failed")

    def told() -> list[tuple[str, str]]:
        rows = cluster.hekla("events", "ends").stdout.splitlines()[1:]
        return [(about, reason) for _, _, about, reason, *_ in map(str.split, rows)]

    told_all = eventually(lambda: ("pod/ends-t-0", "Started") in (found := told()) and found)
    pod = [reason for about, reason in told_all if about == "pod/ends-t-0"]
    assert pod.index("Scheduled") < pod.index("Started") < pod.index("Error")
    assert told_all[-1] == ("job/ends", "Failed")
    # Steps on the way to being placed are nothing to warn a reader of.
    assert [reason for about, reason in told_all if about.startswith("podgroup/")] == ["Scheduled"]
    assert "0/0 tasks in gang unschedulable" in cluster.hekla("events", "ends", "--output", "json").stdout
    assert "Container main ended with exit code 3" in cluster.hekla("events", "ends").stdout
