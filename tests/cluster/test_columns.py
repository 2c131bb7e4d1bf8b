"""What `kubectl get` shows: tables of the same objects from a real kube-apiserver and from ours."""

from __future__ import annotations

import asyncio
import itertools
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.transport import Request
from tests.apiserver.live import LiveServer
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

NAMESPACE = "columns"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LONG_AGO = "2020-01-01T00:00:00Z"


class Sample(NamedTuple):
    path: str  # of the list
    obj: dict[str, Any]
    status: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])


def core(plural: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/{plural}"


def group(group_version: str, plural: str) -> str:
    return f"/apis/{group_version}/namespaces/{NAMESPACE}/{plural}"


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def pod_spec(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}], **fields}


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "w", "tier": "1"}}, "spec": pod_spec(**spec)}


SELECTOR = {
    "matchLabels": {"tier": "1", "app": "w"},
    "matchExpressions": [
        {"key": "app", "operator": "In", "values": ["w", "a"]},
        {"key": "zone", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
        {"key": "old", "operator": "NotIn", "values": ["yes"]},
    ],
}


def samples() -> Iterator[Sample]:
    yield from pods()
    yield from workloads()
    yield from batch()
    yield from network()
    yield from storage()
    yield from cluster()
    yield from rights()


def pods() -> Iterator[Sample]:
    yield Sample(core("pods"), named("plain", spec=pod_spec()))
    yield Sample(core("pods"), named("gated", spec=pod_spec(schedulingGates=[{"name": "a.b/c"}])))
    ready = {"name": "a", "ready": True, "started": True, "restartCount": 2, "image": "x", "imageID": ""}
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": LONG_AGO, "startedAt": LONG_AGO}
    running = {**ready, "state": {"running": {"startedAt": LONG_AGO}}, "lastState": {"terminated": ended}}
    status = {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "containerStatuses": [running]}
    yield Sample(core("pods"), named("runs", spec=pod_spec(readinessGates=[{"conditionType": "ok.example/x"}])), status)
    failed = {**ready, "ready": False, "state": {"terminated": ended}}
    yield Sample(core("pods"), named("failed", spec=pod_spec()), {"phase": "Failed", "containerStatuses": [failed]})
    evicted = {"phase": "Failed", "reason": "Evicted"}
    yield Sample(core("pods"), named("evicted", spec=pod_spec()), evicted)
    waiting = {**ready, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    init = pod_spec(initContainers=[{"name": "i", "image": "z"}, {"name": "k", "image": "z"}])
    first = {**waiting, "name": "i", "state": {"running": {}}}
    yield Sample(core("pods"), named("init", spec=init), {"phase": "Pending", "initContainerStatuses": [first]})
    crashes = {"phase": "Running", "containerStatuses": [waiting]}
    yield Sample(core("pods"), named("crashes", spec=pod_spec()), crashes)
    sidecar = pod_spec(initContainers=[{"name": "s", "image": "z", "restartPolicy": "Always"}])
    beside = {**running, "name": "s"}
    both = {**status, "initContainerStatuses": [beside]}
    yield Sample(core("pods"), named("sidecar", spec=sidecar), both)


def workloads() -> Iterator[Sample]:
    yield Sample(core("podtemplates"), named("t", template=template()))
    counts = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "fullyLabeledReplicas": 3}
    simple = {"replicas": 3, "selector": {"app": "w"}, "template": template()}
    yield Sample(core("replicationcontrollers"), named("rc", spec=simple), counts)
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template()}
    chosen = {**spec, "selector": SELECTOR}
    yield Sample(group("apps/v1", "replicasets"), named("rs", spec=chosen), counts)
    yield Sample(group("apps/v1", "deployments"), named("none", spec=spec))
    rolled = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "updatedReplicas": 2}
    yield Sample(group("apps/v1", "deployments"), named("some", spec=spec), rolled)
    stateful = {**spec, "serviceName": "s"}
    yield Sample(group("apps/v1", "statefulsets"), named("sts", spec=stateful), {"replicas": 3, "readyReplicas": 1})
    everywhere = {"selector": {"matchLabels": {"app": "w"}}, "template": template(nodeSelector={"disk": "ssd"})}
    numbers = {
        "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2,
        "numberAvailable": 1, "numberMisscheduled": 0,
    }  # fmt: skip
    yield Sample(group("apps/v1", "daemonsets"), named("ds", spec=everywhere), numbers)


def batch() -> Iterator[Sample]:
    jobs, once = group("batch/v1", "jobs"), template(restartPolicy="Never")
    # Else kube-apiserver makes a selector of the job's uid: ours has nobody who would use it.
    spec = {"manualSelector": True, "selector": SELECTOR, "template": once}
    yield Sample(jobs, named("new", spec=spec))
    yield Sample(jobs, named("queue", spec={**spec, "parallelism": 4}))
    yield Sample(jobs, named("five", spec={**spec, "completions": 5, "suspend": True}))
    running = {"startTime": LONG_AGO, "active": 1}
    yield Sample(jobs, named("runs", spec=spec), running)
    ended = {"type": "Complete", "status": "True", "lastProbeTime": LONG_AGO, "lastTransitionTime": LONG_AGO}
    target = {**ended, "type": "SuccessCriteriaMet"}
    over = {
        "startTime": LONG_AGO, "completionTime": "2020-01-01T00:03:20Z", "succeeded": 1, "conditions": [target, ended],
        "uncountedTerminatedPods": {},
    }  # fmt: skip
    yield Sample(jobs, named("over", spec=spec), over)
    timed = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": once}}}
    crons = group("batch/v1", "cronjobs")
    yield Sample(crons, named("c1", spec=timed))
    yield Sample(
        crons, named("c2", spec={**timed, "timeZone": "Etc/UTC", "suspend": True}), {"lastScheduleTime": LONG_AGO}
    )


def network() -> Iterator[Sample]:
    services, ports = core("services"), [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]
    headless = {"clusterIP": "None", "selector": {"b": "2", "a": "1"}}
    yield Sample(services, named("headless", spec=headless))
    yield Sample(services, named("ports", spec={**headless, "ports": ports, "externalIPs": ["1.2.3.4"]}))
    yield Sample(services, named("elsewhere", spec={"type": "ExternalName", "externalName": "example.org"}))
    hosts = [{"ip": f"10.1.0.{number}"} for number in range(1, 4)]
    subsets = [{"addresses": hosts, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}]
    yield Sample(core("endpoints"), named("none"))
    yield Sample(core("endpoints"), named("many", subsets=subsets))
    yield Sample(core("endpoints"), named("bare", subsets=[{"addresses": hosts}]))
    slices = group("discovery.k8s.io/v1", "endpointslices")
    yield Sample(slices, named("empty", addressType="IPv4", endpoints=[]))
    listed = [{"addresses": [f"10.1.0.{number}"]} for number in range(1, 6)]
    yield Sample(slices, named("full", addressType="IPv4", endpoints=listed, ports=[{"port": 80}, {"name": "x"}]))
    policies = group("networking.k8s.io/v1", "networkpolicies")
    yield Sample(policies, named("all", spec={"podSelector": {}}))
    yield Sample(policies, named("some", spec={"podSelector": SELECTOR}))


def storage() -> Iterator[Sample]:
    asked = {"accessModes": ["ReadWriteMany", "ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = core("persistentvolumeclaims")
    yield Sample(claims, named("new", spec=asked))
    bound = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    yield Sample(claims, named("bound", spec={**asked, "volumeName": "v", "storageClassName": "fast"}), bound)
    kept = {
        "capacity": {"storage": "2Gi"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"], "storageClassName": "fast",
        "hostPath": {"path": "/x"},
    }  # fmt: skip
    yield Sample("/api/v1/persistentvolumes", named("columns-free", spec=kept))
    taken = {**kept, "claimRef": {"namespace": NAMESPACE, "name": "bound"}, "volumeMode": "Block"}
    taken["persistentVolumeReclaimPolicy"] = "Delete"
    sad = {"phase": "Failed", "reason": "Broken", "message": "no"}
    yield Sample("/api/v1/persistentvolumes", named("columns-taken", spec=taken), sad)
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    yield Sample(classes, named("columns-a", provisioner="p.example"))
    marked = {"name": "columns-b", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    late = {"volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain", "allowVolumeExpansion": True}
    yield Sample(classes, {"metadata": marked, "provisioner": "p.example", **late})
    drivers = [{"name": "d.example", "nodeID": "n"}]
    yield Sample("/apis/storage.k8s.io/v1/csinodes", named("columns-node", spec={"drivers": drivers}))


def cluster() -> Iterator[Sample]:
    nodes = "/api/v1/nodes"
    yield Sample(nodes, named("columns-bare"))
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": ""}
    info = {
        "kubeletVersion": "v1.36.1", "osImage": "Debian", "kernelVersion": "6.1", "containerRuntimeVersion": "crun://1",
        "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "linux",
        "architecture": "amd64",
    }  # fmt: skip
    up = {
        "conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": info,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }  # fmt: skip
    known = {"metadata": {"name": "columns-known", "labels": labels}, "spec": {"unschedulable": True}}
    yield Sample(nodes, known, up)
    yield Sample(core("configmaps"), named("cm", data={"a": "1"}, binaryData={"b": "AA=="}))
    yield Sample(core("secrets"), named("s", stringData={"a": "1", "b": "2"}))
    yield Sample(core("serviceaccounts"), named("sa"))
    hard = {"cpu": "10", "limits.cpu": "20", "limits.memory": "1Gi", "pods": "7"}
    used = {"cpu": "1500m", "limits.cpu": "2", "limits.memory": "0", "pods": "1"}
    yield Sample(core("resourcequotas"), named("new", spec={"hard": hard}))
    yield Sample(core("resourcequotas"), named("used", spec={"hard": hard}), {"hard": hard, "used": used})
    budgets = group("policy/v1", "poddisruptionbudgets")
    matching = {"selector": {"matchLabels": {"a": "b"}}}
    allowed = {"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3}
    yield Sample(budgets, named("most", spec={**matching, "minAvailable": "50%"}))
    yield Sample(budgets, named("few", spec={**matching, "maxUnavailable": 0}), allowed)
    yield Sample("/apis/scheduling.k8s.io/v1/priorityclasses", named("columns-high", value=7))
    yield Sample(group("coordination.k8s.io/v1", "leases"), named("free"))
    yield Sample(group("coordination.k8s.io/v1", "leases"), named("held", spec={"holderIdentity": "me"}))
    involved = {"kind": "Pod", "namespace": NAMESPACE, "name": "p", "fieldPath": "spec.containers{a}"}
    told = {
        "involvedObject": involved, "reason": "Started", "message": "Started container a", "type": "Normal", "count": 3,
        "firstTimestamp": LONG_AGO, "lastTimestamp": LONG_AGO, "source": {"component": "kubelet", "host": "n1"},
    }  # fmt: skip
    yield Sample(core("events"), named("e1", **told))
    yield Sample("/api/v1/namespaces", named("columns-space"))


def rights() -> Iterator[Sample]:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subjects = [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u1"},
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u2"},
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
        {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "sa"},
    ]
    yield Sample(f"{rbac}/clusterroles", named("columns-role", rules=[]))
    yield Sample(f"{rbac}/clusterrolebindings", named("columns-bound", roleRef=role, subjects=subjects))
    yield Sample(group("rbac.authorization.k8s.io/v1", "rolebindings"), named("nobody", roleRef=role))
    hook = {
        "name": "h.example.org", "clientConfig": {"url": "https://localhost:1/x"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
    }  # fmt: skip
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
        yield Sample(path, named("columns-hooks", webhooks=[hook, {**hook, "name": "i.example.org"}]))


def test_both_servers_show_the_same_tables(bare_plane: ControlPlane, tmp_path: pathlib.Path) -> None:
    async def main(server: LiveServer) -> list[str]:
        async with client_from_files([bare_plane.kubeconfig]) as real, client_from_files([server.kubeconfig]) as ours:
            for client in (real, ours):
                await send(client, "POST", "/api/v1/namespaces", named(NAMESPACE))
                await send(client, "POST", core("serviceaccounts"), named("default"))
            found = []
            for sample in samples():
                expected, shown = await table_of(real, sample), await table_of(ours, sample)
                pairs = itertools.zip_longest(expected, shown)
                found += [f"{sample.path}/{sample.name}: {one}, ours {two}" for one, two in pairs if one != two]
            return found

    with LiveServer(tmp_path) as server:
        differences = asyncio.run(main(server))
    assert not differences, "\n".join(differences)


async def table_of(client: Client, sample: Sample) -> list[tuple[Any, ...]]:
    """Each column of the object's table with its cell."""
    await send(client, "POST", sample.path, sample.obj)
    place = f"{sample.path}/{sample.name}"
    if sample.status is not None:
        await send(client, "PATCH", f"{place}/status", {"status": sample.status})
    table = await send(client, "GET", place)
    (row,) = table["rows"]
    columns = [(each["name"], each["type"], each["format"], each["priority"]) for each in table["columnDefinitions"]]
    return [(*column, without_time(cell)) for column, cell in zip(columns, row["cells"], strict=True)]


async def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    data = b"" if body is None else msgspec.json.encode(body)
    answer = await client.transport.send(Request(method, path, data, {"Accept": TABLE, "Content-Type": kind}))
    assert answer.status < 300, f"{method} {path}: {answer.body.decode()}"
    return msgspec.json.decode(answer.body)


def without_time(cell: Any) -> Any:
    """The two are asked moments apart."""
    return re.sub(r"\b\d+[smhd](\d+[smh])?\b|^\d{4}-\d\d-\d\dT.*Z$", "AGE", cell) if isinstance(cell, str) else cell
