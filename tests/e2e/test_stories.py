"""What people hear of a job that is started again at once, of one that has ended, of files edited between two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.local_cluster import LocalCluster, start_cluster
from tests.eventually import eventually

STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with start_cluster(tmp_path_factory.mktemp("stories") / "data", "--outgoing", "none") as running:
        yield running


def job_of(name: str, script: str, *volumes: dict[str, Any]) -> dict[str, Any]:
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script], "volumeMounts": mounts}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 300, "containers": [container]}
    pod["volumes"] = list(volumes)
    spec = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pod}}]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def create(cluster: LocalCluster, name: str, script: str) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(job_of(name, script)))


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


def test_a_script_edited_since_the_last_run_is_not_passed_over_in_silence(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "script"}}
    job = job_of("edited", "cat /script/text", {"name": "script", "configMap": {"name": "script"}})
    said = []
    for text in ("one", "one", "two"):
        file = tmp_path / "job.yaml"
        file.write_text(yaml.safe_dump_all([{**script, "data": {"text": text}}, job]))
        said.append(cluster.hekla("run", file).stderr)
        cluster.hekla("job", "delete", "edited")
        cluster.kubectl("wait", "--for=delete", "pod/edited-t-0")
    assert "is there already" not in said[0]
    assert said[1] == "ConfigMap 'script' is there already and used as it is\n"
    assert said[2] == (
        f"warning: ConfigMap 'script' is there already with other content than in {file}, and used as it is: "
        "delete it first to use the file's\n"
    )
