"""Stock kubectl against `hekla up`, as people know it."""

from __future__ import annotations

import re
import subprocess
from typing import IO

from tests.e2e.local_cluster import HELLO_GANG, LocalCluster
from tests.eventually import eventually
from tests.kubectl import needs_newer_kubectl


@needs_newer_kubectl
def test_the_life_of_a_job_under_kubectl(cluster: LocalCluster) -> None:
    cluster.kubectl("run", "herald", "--image=any", "--restart=Never", "--command", "--", "true")
    watch = subprocess.Popen(
        ["kubectl", "--kubeconfig", cluster.kubeconfig, "get", "pod", "-w"], stdout=subprocess.PIPE, text=True
    )
    assert watch.stdout is not None
    try:
        # Once it shows somebody it has begun; from then on it misses nothing.
        seen = _read_on(watch.stdout, "", "^herald ")
        assert "job.batch.volcano.sh/hello-gang created" in cluster.kubectl("apply", "-f", HELLO_GANG)
        wide = eventually(lambda: _all_kinds(cluster))
        assert "IP" in wide
        cluster.kubectl("wait", "vcjob/hello-gang", "--for=jsonpath={.status.state.phase}=Completed", "--timeout=60s")
        seen = _read_on(watch.stdout, seen, *(f"^hello-gang-worker-{index} .* Completed " for index in range(3)))
    finally:
        watch.terminate()
        watch.communicate(timeout=60)
    assert re.search("^hello-gang-worker-. .* Running ", seen, re.MULTILINE)
    cluster.kubectl("delete", "pod", "herald")
    assert "the sum of our ranks is 3" in cluster.kubectl("logs", "-f", "hello-gang-worker-0")
    for follow in ((), ("-f",)):
        assert cluster.hekla("logs", *follow, "hello-gang").stdout.count("the sum of our ranks is 3") == 3
    described = cluster.kubectl("describe", "vcjob", "hello-gang")
    assert "Completed" in described
    assert "Events:" in described
    # kubectl compares with the file, which leaves defaults out, so it says "configured"; nothing changes all the same.
    cluster.kubectl("apply", "-f", HELLO_GANG)
    assert cluster.get("vcjob", "hello-gang")["metadata"]["generation"] == 1
    assert "deleted" in cluster.kubectl("delete", "vcjob", "hello-gang")
    eventually(lambda: not [name for kind in _OWNED for name in cluster.names(kind) if "hello-gang" in name])


def _read_on(stream: IO[str], seen: str, *wanted: str) -> str:
    """What was seen so far and what comes, until every pattern is among it."""
    while not all(re.search(each, seen, re.MULTILINE) for each in wanted):
        line = stream.readline()
        assert line, f"ended; seen: {seen}"
        seen += line
    return seen


_OWNED = ("pod", "podgroup", "configmap", "service", "networkpolicy")


def _all_kinds(cluster: LocalCluster) -> str:
    shown = cluster.kubectl("get", "vcjob,podgroup,pod", "-o", "wide")
    assert "job.batch.volcano.sh/hello-gang" in shown
    assert "podgroup.scheduling.volcano.sh/hello-gang-" in shown
    assert "pod/hello-gang-worker-2" in shown
    return shown


def test_explain_tells_what_a_field_is_for(cluster: LocalCluster) -> None:
    text = cluster.kubectl("explain", "vcjob.spec.tasks")
    assert "replicas" in text
    assert "dependsOn" in text
    assert "template" in text


def test_api_resources_lists_our_kinds_with_their_short_names(cluster: LocalCluster) -> None:
    lines = cluster.kubectl("api-resources").splitlines()
    assert any("vcjob,vj" in line and "batch.volcano.sh/v1alpha1" in line for line in lines)
    assert any(line.startswith("pods ") and " po " in line for line in lines)


def test_nobody_is_answered_without_a_credential(cluster: LocalCluster) -> None:
    server = cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    command = ["kubectl", "--kubeconfig=/dev/null", "--server", server, "--insecure-skip-tls-verify", "get", "pods"]
    done = subprocess.run(
        [*command, "--username=nobody", "--password=nothing"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "nauthorized" in done.stderr or "logged in" in done.stderr


def test_suspend_and_resume_move_the_job(cluster: LocalCluster) -> None:
    job = SLEEPER.replace("NAME", "sleeper")
    cluster.kubectl("apply", "-f", "-", stdin=job)
    cluster.wait_for("vcjob/sleeper", ".status.state.phase", "Running")
    cluster.hekla("job", "suspend", "sleeper")
    cluster.wait_for("vcjob/sleeper", ".status.state.phase", "Aborted")
    cluster.hekla("job", "resume", "sleeper")
    cluster.wait_for("vcjob/sleeper", ".status.state.phase", "Running")
    assert "sleeper" in cluster.hekla("job", "list").stdout
    assert "Running" in cluster.hekla("job", "view", "sleeper").stdout
    cluster.hekla("job", "delete", "sleeper")
    eventually(lambda: not [name for name in cluster.names("pod") if "sleeper" in name])


def test_a_pod_that_is_deleted_has_its_grace_and_its_last_words_are_followed(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=POLITE)
    cluster.kubectl("wait", "pod/polite", "pod/deaf", "--for=condition=Ready", "--timeout=60s")
    following = subprocess.Popen(
        ["kubectl", "--kubeconfig", cluster.kubeconfig, "logs", "-f", "polite"], stdout=subprocess.PIPE, text=True
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "hello\n"
    described = cluster.kubectl("describe", "pod", "polite")
    assert "Started container main" in described
    cluster.kubectl("delete", "pod", "polite")
    assert following.communicate(timeout=60)[0] == "goodbye\n"
    # One that does not listen is not waited for longer than it was given.
    cluster.kubectl("delete", "pod", "deaf", "--grace-period=1", "--timeout=60s")
    assert not [name for name in cluster.names("pod") if name in ("polite", "deaf")]


POLITE = """
apiVersion: v1
kind: Pod
metadata: {name: polite}
spec:
  nodeName: local
  containers:
    - name: main
      image: any
      command: [sh, -c, "trap 'sleep 0.5; echo goodbye; exit 0' TERM; echo hello; while :; do sleep 0.1; done"]
---
apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  nodeName: local
  terminationGracePeriodSeconds: 600
  containers: [{name: main, image: any, command: [sh, -c, "trap '' TERM; while :; do sleep 0.1; done"]}]
"""

SLEEPER = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  minAvailable: 1
  tasks:
    - name: main
      replicas: 1
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers: [{name: main, image: any, command: [sleep, "600"]}]
"""
