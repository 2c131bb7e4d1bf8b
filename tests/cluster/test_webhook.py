"""`hekla webhook` on a real kube-apiserver: it defaults, refuses and lets pass as the embedded server does."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.components import HEKLA, running, start_components, start_webhook
from tests.cluster.control_plane import ControlPlane
from tests.eventually import eventually
from tests.ports import free_ports

pytestmark = pytest.mark.cluster

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: checked}
spec:
  plugins: {PLUGIN: []}
  minAvailable: MIN
  tasks:
    - {name: main, replicas: 2, template: {spec: {containers: [{name: main, image: any, command: [x]}]}}}
"""


GROUPS = """
resourceGroups:
- resourceGroup: batch
  object: {key: namespace, value: [grouped]}
  labels: {pool: batch}
  tolerations: [{key: batch-only, operator: Exists}]
"""
GATES = ("--feature-gates", "SchedulingGatesQueueAdmission=true")


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("webhook")
    groups = folder / "groups.yaml"
    groups.write_text(GROUPS)
    with (
        start_components(control_plane, folder),
        start_webhook(control_plane, folder, "--admission-conf", str(groups), *GATES),
    ):
        yield control_plane


def kubectl(plane: ControlPlane) -> list[str | Path]:
    return [plane.kubectl, "--kubeconfig", plane.kubeconfig]


def apply(plane: ControlPlane, plugin: str, minimum: int) -> subprocess.CompletedProcess[str]:
    text = JOB.replace("PLUGIN", plugin).replace("MIN", str(minimum))
    return subprocess.run(
        [*kubectl(plane), "apply", "-f", "-"], input=text, capture_output=True, text=True, timeout=180
    )


def test_a_webhook_that_cannot_listen_is_not_registered(control_plane: ControlPlane) -> None:
    assert control_plane.credentials is not None
    node = control_plane.credentials.node
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [
            HEKLA, "webhook", "--kubeconfig", control_plane.kubeconfig, "--port", port,
            "--tls-cert-file", node.certificate, "--tls-private-key-file", node.key,
            "--ca-cert-file", control_plane.credentials.ca, "--webhook-url", f"https://127.0.0.1:{port}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 1
    assert f"port {port}: Address already in use; --port names another" in done.stderr
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    shown = subprocess.check_output([*kubectl(control_plane), "get", kinds, "-o", "name"], text=True)
    assert "volcano" not in shown


def test_a_path_that_is_no_longer_enabled_is_asked_no_more_and_others_are_left_alone(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    assert control_plane.credentials is not None
    node, (port, other) = control_plane.credentials.node, free_ports(2)
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"

    def registered(port: int, *enabled: str) -> set[str]:
        command = [
            "webhook", "--kubeconfig", str(control_plane.kubeconfig), "--port", str(port),
            "--tls-cert-file", str(node.certificate), "--tls-private-key-file", str(node.key),
            "--ca-cert-file", str(control_plane.credentials.ca), "--webhook-url", f"https://127.0.0.1:{port}",
            "--enabled-admission", ",".join(enabled),
        ]  # fmt: skip
        with running("webhook", command, tmp_path, ready="webhook on port"):
            shown = subprocess.check_output([*kubectl(control_plane), "get", kinds, "-o", "name"], text=True)
        return {line.rpartition("service-")[2] for line in shown.split() if "volcano-admission-service-" in line}

    try:
        assert registered(port, "/jobs/mutate", "/jobs/validate") == {"jobs-mutate", "jobs-validate"}
        assert registered(other, "/pods/validate") == {"jobs-mutate", "jobs-validate", "pods-validate"}
        assert registered(port, "/jobs/validate") == {"jobs-validate", "pods-validate"}
    finally:
        subprocess.run([*kubectl(control_plane), "delete", kinds, "--all"], capture_output=True, check=True)


def test_whoever_writes_is_told_that_the_webhook_may_not_look(control_plane: ControlPlane, tmp_path: Path) -> None:
    hekla_install = [HEKLA, "install", "--kubeconfig", control_plane.kubeconfig]
    subprocess.run(hekla_install, check=True, timeout=180, capture_output=True)
    token = [*kubectl(control_plane), "create", "token", "default"]
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": subprocess.check_output(token, text=True).strip()}
    account = tmp_path / "account.kubeconfig"
    account.write_text(json.dumps(document))
    words = "what the review needs cannot be looked up: queues.scheduling.volcano.sh is forbidden"
    with start_webhook(control_plane, tmp_path, account=account, able=False):
        eventually(lambda: words in apply(control_plane, "svc", 2).stderr, what="the API server hands on the words")


def test_a_job_is_defaulted_and_may_be_applied_twice(webhook: ControlPlane) -> None:
    for _ in range(2):
        done = apply(webhook, "pytorch", 2)
        assert done.returncode == 0, done.stderr
    found = json.loads(subprocess.check_output([*kubectl(webhook), "get", "vcjob", "checked", "-o", "json"]))
    assert found["spec"]["tasks"][0]["minAvailable"] == 2
    assert set(found["spec"]["plugins"]) == {"pytorch", "svc"}
    subprocess.run([*kubectl(webhook), "delete", "vcjob", "checked"], check=True, capture_output=True)


def test_what_is_wrong_is_refused_all_at_once(webhook: ControlPlane) -> None:
    refused = apply(webhook, "nonsense", 9)
    assert refused.returncode != 0
    assert "job 'minAvailable' should not be greater than total replicas" in refused.stderr
    assert "unable to find job plugin: nonsense" in refused.stderr


def test_a_pod_is_sent_where_its_resource_group_says(webhook: ControlPlane) -> None:
    subprocess.run([*kubectl(webhook), "create", "namespace", "grouped"], check=True, capture_output=True)
    account = [*kubectl(webhook), "-n", "grouped", "get", "serviceaccount", "default"]
    eventually(lambda: not subprocess.run(account, capture_output=True).returncode, what="the namespace has an account")
    made = {}
    for namespace in ("grouped", "default"):
        run = [*kubectl(webhook), "-n", namespace, "run", "probe", "--image=any", "--dry-run=server", "-o", "json"]
        made[namespace] = json.loads(subprocess.check_output(run))["spec"]
    assert made["grouped"]["nodeSelector"] == {"pool": "batch"}
    assert {"key": "batch-only", "operator": "Exists"} in made["grouped"]["tolerations"]
    assert "nodeSelector" not in made["default"]
    subprocess.run(
        [*kubectl(webhook), "delete", "namespace", "grouped", "--wait=false"], check=True, capture_output=True
    )


def test_a_pod_that_asks_for_it_is_made_behind_the_gate_of_its_queue(webhook: ControlPlane) -> None:
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    run = [*kubectl(webhook), "run", "probe", "--image=any", "--dry-run=server", "-o", "json"]
    asked = json.loads(subprocess.check_output([*run, f"--annotations={gate}=true"]))
    assert asked["spec"]["schedulingGates"] == [{"name": gate}]
    assert "schedulingGates" not in json.loads(subprocess.check_output(run))["spec"]


def test_queues_go_with_their_collection_but_the_default_one_stays(webhook: ControlPlane) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {"weight": 1}}
    for name in ("gone-1", "gone-2", "default"):
        labelled = {**queue, "metadata": {"name": name, "labels": {"stays": str(name == "default").lower()}}}
        apply = [*kubectl(webhook), "apply", "-f", "-"]
        subprocess.run(apply, input=json.dumps(labelled), text=True, check=True, capture_output=True)
    path = "/apis/scheduling.volcano.sh/v1beta1/queues?labelSelector=stays%3D"
    gone = subprocess.run([*kubectl(webhook), "delete", "--raw", f"{path}false"], capture_output=True, text=True)
    assert gone.returncode == 0, gone.stderr
    left = [*kubectl(webhook), "get", "queues", "-l", "stays", "-o", "name"]
    eventually(lambda: subprocess.check_output(left, text=True) == "queue.scheduling.volcano.sh/default\n")
    kept = subprocess.run([*kubectl(webhook), "delete", "--raw", f"{path}true"], capture_output=True, text=True)
    assert "denied the request: `default` queue can not be deleted" in kept.stderr
