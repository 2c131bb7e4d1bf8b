"""What people hear of a job that is started again at once, of one that has ended, of files edited between two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hekla.api.meta import timestamp
from hekla.clock import SystemClock
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


def test_what_a_pod_said_before_its_job_was_restarted_stays_until_the_job_goes(cluster: LocalCluster) -> None:
    # The first attempt fails, the second one is what a person looks at.
    flag = {"name": "claim", "persistentVolumeClaim": {"claimName": "restarted"}}
    fails = "touch /claim/again; echo ValueError >&2; exit 1"
    script = f"[ -e /claim/again ] || {{ {fails}; }}; echo second; trap 'exit 0' TERM; sleep 600 & wait"
    job = job_of("restarted", script, flag)
    job["spec"]["policies"] = [{"event": "PodFailed", "action": "RestartJob"}]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "restarted"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    for each in (claim, job):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))
    cluster.wait_for("vcjob/restarted", ".status.retryCount", "1")
    eventually(lambda: cluster.kubectl("logs", "-p", "restarted-t-0", check=False) == "ValueError\n")
    eventually(lambda: cluster.kubectl("logs", "restarted-t-0", check=False) == "second\n")
    assert cluster.hekla("logs", "-p", "restarted").stdout == "restarted-t-0 | ValueError\n"
    # Suspended, it has no pods: of each name the last that is kept is shown.
    cluster.hekla("job", "suspend", "restarted")
    cluster.wait_for("vcjob/restarted", ".status.state.phase", "Aborted")
    shown = cluster.hekla("logs", "restarted")
    assert (shown.stdout, shown.stderr) == ("restarted-t-0 | second\n", "kept of pods that are gone: restarted-t-0\n")
    assert cluster.hekla("logs", "-pp", "restarted").stdout == "restarted-t-0 | ValueError\n"
    # Who may not read logs of pods reads none of those that are gone.
    uid = cluster.get("vcjob", "restarted")["metadata"]["uid"]
    path = f"/api/v1/namespaces/{{}}/pods/restarted-t-0/log?container=main&previous=true&jobUid={uid}"
    assert cluster.kubectl("get", "--raw", path.format("default")) == "second\n"
    assert "cannot get resource" in cluster.kubectl("get", "--raw", path.format("default"), "--as=ann", check=False)
    assert "not found" in cluster.kubectl("get", "--raw", path.format("kube-system"), check=False)
    kept = cluster.data_dir / "nodes" / "kept"
    assert uid in [each.name for each in kept.iterdir()]
    cluster.kubectl("delete", "vcjob", "restarted")
    eventually(lambda: uid not in [each.name for each in kept.iterdir()])


def test_what_came_before_is_read_also_while_the_pod_waits_for_room_again(cluster: LocalCluster) -> None:
    create(cluster, "waits", "echo first; trap 'exit 0' TERM; sleep 600 & wait")
    eventually(lambda: cluster.kubectl("logs", "waits-t-0", check=False) == "first\n")
    cluster.kubectl("cordon", "local")
    try:
        before = cluster.get("pod", "waits-t-0")["metadata"]["uid"]
        cluster.kubectl("delete", "pod", "waits-t-0")
        eventually(lambda: cluster.get("pod", "waits-t-0")["metadata"]["uid"] != before)
        assert "nodeName" not in cluster.get("pod", "waits-t-0")["spec"]
        assert cluster.hekla("logs", "-p", "waits").stdout == "waits-t-0 | first\n"
        assert cluster.kubectl("logs", "waits-t-0") == ""
    finally:
        cluster.kubectl("uncordon", "local")
    cluster.kubectl("delete", "vcjob", "waits")


def test_a_run_that_failed_in_the_end_names_the_way_to_what_was_said_before(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    job = job_of("fails", "echo reason; exit 1")
    job["spec"] |= {"policies": [{"event": "PodFailed", "action": "RestartJob"}], "maxRetry": 1}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    ended = cluster.hekla("run", tmp_path / "job.yaml", check=False)
    assert ended.returncode == 1
    assert f"  hekla logs -p fails --data-dir {cluster.data_dir}\n" in ended.stdout
    cluster.kubectl("delete", "vcjob", "fails")


def test_a_job_whose_retries_ran_out_says_why_though_the_pod_that_failed_is_gone(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    job = job_of("pol", "exit $((3 * VC_TASK_INDEX))")
    job["spec"]["tasks"][0]["replicas"] = 2
    restart = [{"event": "PodFailed", "action": "RestartPod"}]
    job["spec"] |= {"minAvailable": 2, "maxRetry": 3, "plugins": {"env": []}, "policies": restart}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    reason = "  pol-t-1: Error, exit code 3, after 3 of 3 attempts\n"
    assert reason in cluster.hekla("run", tmp_path / "job.yaml", check=False).stderr
    assert "pol-t-1" not in cluster.names("pod")
    eventually(lambda: cluster.hekla("why", "pol").stdout == f"pol has ended: Failed\n{reason}")
    assert reason in cluster.hekla("job", "view", "pol").stdout

    def told() -> dict[str, list[str]]:
        """Of each pod of that name what its Events tell, in their order."""
        found: dict[str, list[str]] = {}
        for event in json.loads(cluster.hekla("events", "pol", "--output", "json").stdout):
            if event["involvedObject"]["name"] == "pol-t-1":
                found.setdefault(event["involvedObject"]["uid"], []).append(event["reason"])
        return found

    # What scheduler and node say is written by each in its time.
    eventually(lambda: [sorted(each) for each in told().values()] == [["Error", "Scheduled", "Started"]] * 3)
    assert all(each.index("Started") < each.index("Error") for each in told().values())
    cluster.kubectl("delete", "vcjob", "pol")
    # Another job of that name has a story of its own; times have whole seconds.
    second = max(event["lastTimestamp"] for event in cluster.get("events")["items"])
    eventually(lambda: timestamp(SystemClock().now()) > second)
    create(cluster, "pol", "sleep 600")
    eventually(lambda: "Started" in cluster.hekla("events", "pol").stdout)
    assert "pol-t-1" not in cluster.hekla("events", "pol").stdout
    cluster.kubectl("delete", "vcjob", "pol")


def test_what_pods_used_that_were_ended_with_their_job_is_told(cluster: LocalCluster, tmp_path: Path) -> None:
    job = job_of("led", "trap 'exit 0' TERM; echo up; sleep 600 & wait")
    leader = json.loads(json.dumps(job["spec"]["tasks"][0]))
    leader |= {"name": "leader", "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}
    leader["template"]["spec"]["containers"][0]["command"] = ["sleep", "1"]
    asked = {"requests": {"cpu": "50m", "memory": "32Mi"}}
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = asked
    job["spec"] |= {"minAvailable": 2, "tasks": [leader, job["spec"]["tasks"][0]]}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    lines = cluster.hekla("run", tmp_path / "job.yaml").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("PER POD"))
    led, follower = map(str.split, lines[at + 1 : at + 3])
    assert (led[0], follower[:2], follower[3]) == ("leader", ["t", "50m"], "32Mi")
    assert "-" not in follower
    # Nothing says so any more when nobody followed.
    rows = [line.split() for line in cluster.hekla("job", "view", "led").stdout.splitlines()]
    assert ["t", "50m", "-", "32Mi", "-"] in rows
    cluster.kubectl("delete", "vcjob", "led")


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
