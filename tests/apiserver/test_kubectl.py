"""Stock kubectl against a running server, over TLS, as people use it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.apiserver.live import LiveServer
from tests.eventually import eventually
from tests.kubectl import needs_newer_kubectl

HELLO_GANG = str(Path(__file__).parents[2] / "examples" / "hello-gang" / "job.yaml")


@needs_newer_kubectl
def test_a_job_is_applied_shown_changed_and_deleted(live: LiveServer) -> None:
    assert "job.batch.volcano.sh/hello-gang created" in live.kubectl("apply", "-f", HELLO_GANG)
    assert "unchanged" in live.kubectl("apply", "-f", HELLO_GANG)
    assert live.kubectl("diff", "-f", HELLO_GANG) == ""
    shown = live.kubectl("get", "vcjob,podgroup,pod", "-o", "wide")
    assert "QUEUE" in shown
    live.kubectl("label", "vcjob", "hello-gang", "team=a")
    live.kubectl("annotate", "vcjob", "hello-gang", "note=b")
    live.kubectl("patch", "vcjob", "hello-gang", "--type=merge", "-p", '{"spec":{"minAvailable":2}}')
    changed = json.loads(live.kubectl("get", "vj", "hello-gang", "-o", "json"))
    assert changed["spec"]["minAvailable"] == 2
    assert changed["metadata"]["generation"] == 2
    assert changed["metadata"]["labels"] == {"team": "a"}
    live.kubectl(
        "patch", "vcjob", "hello-gang", "--subresource=status", "--type=merge", "-p", '{"status":{"running":3}}'
    )
    live.kubectl("wait", "vcjob/hello-gang", "--for=jsonpath={.status.running}=3", "--timeout=10s")
    assert "Min Available:  2" in live.kubectl("describe", "vcjob", "hello-gang")
    assert "configured" in live.kubectl("apply", "-f", HELLO_GANG)
    assert "deleted" in live.kubectl("delete", "-f", HELLO_GANG)


@needs_newer_kubectl
def test_server_side_apply_makes_and_keeps(live: LiveServer) -> None:
    for _ in range(2):
        assert "serverside-applied" in live.kubectl("apply", "--server-side", "-f", HELLO_GANG)
    shown = live.kubectl("get", "vcjob", "hello-gang", "-o", "yaml", "--show-managed-fields")
    assert "f:minAvailable" in shown
    live.kubectl("delete", "vcjob", "hello-gang")


@needs_newer_kubectl
def test_a_wrong_field_is_refused_by_name(live: LiveServer) -> None:
    manifest = Path(HELLO_GANG).read_text().replace("minAvailable", "minAvailabel")
    refused = live.kubectl("apply", "-f", "-", stdin=manifest, check=False)
    assert 'unknown field "spec.minAvailabel"' in refused


@needs_newer_kubectl
def test_what_kubectl_sends_as_protobuf_is_read(live: LiveServer) -> None:
    live.kubectl("create", "configmap", "settings", "--from-literal=a=1", "--from-literal=b=two")
    assert json.loads(live.kubectl("get", "cm", "settings", "-o", "json"))["data"] == {"a": "1", "b": "two"}
    live.kubectl("create", "secret", "generic", "hidden", "--from-literal=a=b")
    assert json.loads(live.kubectl("get", "secret", "hidden", "-o", "json"))["data"] == {"a": "Yg=="}
    live.kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=0", "--port=80")
    deployment = json.loads(live.kubectl("get", "deploy", "web", "-o", "json"))
    assert deployment["spec"]["replicas"] == 0
    assert deployment["spec"]["template"]["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    live.kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    (port,) = json.loads(live.kubectl("get", "svc", "web", "-o", "json"))["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, 8080)
    live.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    live.kubectl("create", "rolebinding", "readers", "--role=reader", "--user=jane")
    live.kubectl("create", "quota", "q", "--hard=cpu=1,memory=1G")
    refused = (
        'Error from server (Forbidden): pods "p" is forbidden: failed quota: q: must specify cpu for: p; memory for: p'
    )
    assert refused in live.kubectl("run", "p", "--image=x", check=False)
    live.kubectl("create", "poddisruptionbudget", "b", "--selector=a=b", "--min-available=50%")
    assert json.loads(live.kubectl("get", "pdb", "b", "-o", "json"))["spec"]["minAvailable"] == "50%"
    live.kubectl(
        "delete", "cm/settings", "secret/hidden", "deploy/web", "svc/web", "role/reader", "rolebinding/readers",
        "quota/q",
    )  # fmt: skip
    assert live.kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "system:masters" in live.kubectl("auth", "whoami")


@needs_newer_kubectl
@pytest.mark.parametrize("kind", ["vcjob", "podgroup", "queue", "pod"])
def test_older_clients_get_the_same_schema_as_protobuf(live: LiveServer, kind: str) -> None:
    explained = {
        form: live.kubectl("explain", kind, "--recursive", f"--output={form}")
        for form in ("plaintext", "plaintext-openapiv2")
    }
    words = {form: re.findall(r"^ *(\w+)\s+<", text, re.MULTILINE) for form, text in explained.items()}
    assert len(words["plaintext"]) > 10
    assert words["plaintext-openapiv2"] == words["plaintext"]


_WATCHED = 'apiserver_longrunning_requests{resource="pods",verb="WATCH"} 1.0'


def test_a_watch_shows_rows_as_they_change(live: LiveServer) -> None:
    command = ["kubectl", "--kubeconfig", str(live.kubeconfig), "get", "pod", "-l", "run=watched", "-w"]
    with subprocess.Popen([*command, "--output-watch-events"], stdout=subprocess.PIPE, text=True) as watching:
        try:
            eventually(lambda: _WATCHED in live.kubectl("get", "--raw", "/metrics"), what="the watch has begun")
            live.kubectl("run", "watched", "--image=python:3", "--restart=Never", "--", "sleep", "1")
            live.kubectl("delete", "pod", "watched")
            assert watching.stdout is not None
            lines = [watching.stdout.readline() for _ in range(3)]
        finally:
            watching.terminate()
    assert lines[0].split() == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line.split()[0] for line in lines[1:]] == ["ADDED", "DELETED"]


@needs_newer_kubectl
def test_explain_and_api_resources_know_every_kind(live: LiveServer) -> None:
    explained = live.kubectl("explain", "vcjob.spec.tasks")
    assert "replicas" in explained
    assert "<PodSpec>" in live.kubectl("explain", "pod")
    assert "restartPolicy" in live.kubectl("explain", "pod.spec")
    resources = live.kubectl("api-resources")
    assert "vcjob,vj" in resources
    assert "deployments" in resources
    assert "v1.36" in live.kubectl("version")


def test_columns_are_those_of_a_cluster(live: LiveServer) -> None:
    for kind, columns in (
        ("pods", "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"),
        ("nodes", "NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME"),
        ("namespaces", "NAME STATUS AGE"),
        ("queues", "NAME PARENT"),
    ):
        name = f"{kind}-probe" if kind != "namespaces" else "default"
        if kind == "nodes":
            live.kubectl("create", "-f", "-", stdin=json.dumps(_node(name)))
        elif kind == "pods":
            live.kubectl("run", name, "--image=x", "--restart=Never")
        elif kind == "queues":
            queue = {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {},
            }
            live.kubectl("create", "-f", "-", stdin=json.dumps(queue))
        header = live.kubectl("get", kind, "-o", "wide").splitlines()[0]
        assert header.split() == columns.split()


def _node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def test_deleting_waits_until_the_object_is_gone(live: LiveServer) -> None:
    live.kubectl("create", "configmap", "held")
    live.kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":["example.org/wait"]}}')
    command = ["kubectl", "--kubeconfig", str(live.kubeconfig), "delete", "cm", "held"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as deleting:
        eventually(lambda: "deletionTimestamp" in live.kubectl("get", "cm", "held", "-o", "json"))
        assert deleting.poll() is None
        live.kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert deleting.wait(timeout=60) == 0


POD = """
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: main, image: any, command: [sleep, "60"]}]}
"""


@needs_newer_kubectl
def test_debug_containers_are_refused_as_by_a_cluster_that_has_none(live: LiveServer) -> None:
    live.kubectl("create", "-f", "-", stdin=POD)
    refused = live.kubectl("debug", "alone", "--image=any", "--profile=general", check=False)
    assert "ephemeral containers are disabled for this cluster" in refused
    live.kubectl("delete", "pod", "alone", "--now")
