"""`hekla install` on a real kube-apiserver: what it grants is enough for everything, and what it starts is let in."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.components import HEKLA, start_components, start_webhook
from tests.cluster.control_plane import ControlPlane
from tests.eventually import eventually

pytestmark = pytest.mark.cluster

NAMESPACE = "volcano-system"
COMPONENTS = ("controllers", "scheduler", "webhook", "node")
MANIFESTS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang}
spec:
  minAvailable: 2
  schedulerName: volcano
  plugins: {env: [], svc: [], ssh: []}
  tasks:
    - name: worker
      replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: local, command: [sh, -c, "ls /root/.ssh && cat /etc/volcano/worker.host"]}]
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: growing}
spec:
  minAvailable: 1
  schedulerName: volcano
  plugins: {ssh: [], svc: []}
  tasks:
    - name: worker
      replicas: 1
      template: {spec: {containers: [{name: main, image: local, command: [sleep, "3600"]}]}}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: step}
spec:
  minAvailable: 1
  schedulerName: volcano
  tasks:
    - name: only
      replicas: 1
      template: {spec: {restartPolicy: Never, containers: [{name: main, image: local, command: ["true"]}]}}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: flow}
spec: {jobRetainPolicy: delete, flows: [{name: step}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  schedulerName: volcano
  restartPolicy: Never
  containers: [{name: main, image: local, command: ["true"]}]
"""


def kubectl(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    command = [plane.kubectl, "--kubeconfig", plane.kubeconfig, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, input=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(plane: ControlPlane, *arguments: str) -> str:
    command = [HEKLA, "install", "--kubeconfig", plane.kubeconfig, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout


@pytest.fixture
def accounts(control_plane: ControlPlane, tmp_path: Path) -> dict[str, Path]:
    return make_accounts(control_plane, tmp_path)


def make_accounts(plane: ControlPlane, directory: Path) -> dict[str, Path]:
    """A kubeconfig for each component, with a token of its own account and nothing else."""
    install(plane, "--with-node")
    document: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text())
    found = {}
    for name in COMPONENTS:
        token = kubectl(plane, "-n", NAMESPACE, "create", "token", f"hekla-{name}").strip()
        document["users"][0]["user"] = {"token": token}
        found[name] = directory / f"{name}.kubeconfig"
        found[name].write_text(json.dumps(document))
    return found


def refusals(plane: ControlPlane) -> dict[str, int]:
    """How often the API server has said 401 or 403, by what was asked."""
    lines = kubectl(plane, "get", "--raw", "/metrics").splitlines()
    counted = [line for line in lines if re.match(r'apiserver_request_total\{code="40[13]"', line)]
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in counted}


def test_a_gang_runs_to_its_end_with_these_rights_and_nothing_is_forbidden(
    control_plane: ControlPlane, accounts: dict[str, Path], tmp_path: Path
) -> None:
    before = refusals(control_plane)
    webhook = start_webhook(control_plane, tmp_path, account=accounts["webhook"])
    with start_components(control_plane, tmp_path, accounts=accounts), webhook:
        kubectl(control_plane, "apply", "-f", "-", stdin=MANIFESTS)
        phase = "jsonpath={.status.state.phase}"
        kubectl(control_plane, "wait", "vcjob/gang", f"--for={phase}=Completed", "--timeout=180s")
        kubectl(control_plane, "wait", "pod/alone", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s")
        kubectl(control_plane, "wait", "jobflow/flow", f"--for={phase}=Succeed", "--timeout=180s")
        assert "id_rsa" in kubectl(control_plane, "logs", "gang-worker-0")
        kubectl(control_plane, "wait", "vcjob/growing", f"--for={phase}=Running", "--timeout=180s")
        grown = '[{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}]'
        kubectl(control_plane, "patch", "vcjob/growing", "--type=json", "-p", grown)
        hosts = ("get", "secret", "growing-ssh", "-o", "go-template={{base64decode .data.config}}")
        eventually(lambda: "growing-worker-1" in kubectl(control_plane, *hosts), what="its hosts have followed")
        for made in ("service/growing", "configmap/growing-svc", "networkpolicy/growing"):
            kubectl(control_plane, "delete", made)
            shown = ("get", made, "--ignore-not-found", "-o", "name")
            eventually(partial(kubectl, control_plane, *shown), what=f"{made} is there again")
        assert refusals(control_plane) == before
        kubectl(control_plane, "delete", "-f", "-", stdin=MANIFESTS)
        eventually(lambda: "gang" not in kubectl(control_plane, "get", "pods,secrets,podgroups"))
        assert refusals(control_plane) == before


@pytest.fixture
def running(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane, "--image", "hekla:test")
    yield control_plane
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        kubectl(control_plane, "delete", kind, "--all")
    kubectl(control_plane, "-n", NAMESPACE, "delete", "deployments", "--all")


def test_the_pods_it_starts_meet_the_restricted_profile(running: ControlPlane) -> None:
    enforced = kubectl(
        running, "get", "namespaces", "-l", "pod-security.kubernetes.io/enforce=restricted", "-o", "name"
    )
    assert enforced == f"namespace/{NAMESPACE}\n"

    def made() -> bool:
        sets = json.loads(kubectl(running, "-n", NAMESPACE, "get", "replicasets", "-o", "json"))["items"]
        return len(sets) == 3 and all(each["status"].get("replicas") == each["spec"]["replicas"] for each in sets)

    eventually(made, what="the API server lets the pods in")


def test_installing_again_leaves_the_webhook_and_its_certificate_alone(running: ControlPlane) -> None:
    def present() -> list[Any]:
        secret = json.loads(kubectl(running, "-n", NAMESPACE, "get", "secret", "hekla-webhook-tls", "-o", "json"))
        webhook = json.loads(kubectl(running, "-n", NAMESPACE, "get", "deployment", "hekla-webhook", "-o", "json"))
        hooks = json.loads(kubectl(running, "get", "validatingwebhookconfigurations", "-o", "json"))["items"]
        return [secret["data"], webhook["spec"], [hook["webhooks"] for hook in hooks]]

    before = present()
    install(running, "--image", "hekla:test")
    assert present() == before


def test_what_a_webhook_has_registered_itself_is_taken_over(running: ControlPlane) -> None:
    kind, name = "mutatingwebhookconfigurations", "volcano-admission-service-jobs-mutate"
    kubectl(running, "delete", kind, name)
    url = {"url": "https://127.0.0.1:9/jobs/mutate"}
    hook = {
        "name": "mutatejob.volcano.sh",
        "clientConfig": url,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    document = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]}
    version = {"apiVersion": "admissionregistration.k8s.io/v1"}
    kubectl(running, "create", "-f", "-", stdin=json.dumps({**version, **document}))
    install(running, "--image", "hekla:test")
    (found,) = json.loads(kubectl(running, "get", kind, name, "-o", "json"))["webhooks"]
    service = {"name": "hekla-webhook", "namespace": NAMESPACE, "path": "/jobs/mutate", "port": 443}
    assert {name: found["clientConfig"].get(name) for name in ("url", "service")} == {"url": None, "service": service}
    install(running, "--image", "hekla:test")


def test_nothing_printed_is_a_wildcard_and_only_the_node_looks_around_in_secrets() -> None:
    command = [HEKLA, "install", "--print", "--with-node", "--image", "hekla:test"]
    printed = subprocess.check_output(command, text=True, timeout=180)
    objects = list(yaml.safe_load_all(printed))
    roles = [each for each in objects if each["kind"] in ("ClusterRole", "Role")]
    assert [each["kind"] for each in roles].count("ClusterRole") == 6
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["apiGroups"], *rule["resources"]], role["metadata"]["name"]
            looks = "secrets" in rule["resources"] and {"list", "watch"} & set(rule["verbs"])
            # A kubelet follows the Secrets that its pods have mounted.
            assert not looks or role["metadata"]["name"] == "hekla:node"
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
    deployments = [each for each in objects if each["kind"] == "Deployment"]
    assert [each["spec"]["replicas"] for each in deployments] == [2, 2, 2]
