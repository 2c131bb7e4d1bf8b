"""What quotas allow, refuse and count: cases that our server and a real one are both held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hekla.api.kinds import RESOURCE_QUOTA, Obj, kind_of
from hekla.client.rest import Client
from hekla.errors import Forbidden

GPU = "example.com/gpu"


@dataclass(frozen=True)
class Case:
    """Objects created one after the other; what each is told (nothing when it is let in), and the use in the end."""

    name: str
    quota: Obj
    steps: list[tuple[Obj, str]]
    used: dict[str, str]


def pod(name: str, requests: Any = None, limits: Any = None, **spec: Any) -> Obj:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    container = {"name": "main", "image": "none:1", "resources": resources}
    return _obj("v1", "Pod", name, spec={"containers": [container], **spec})


def service(name: str, ports: int = 1, **spec: Any) -> Obj:
    return _obj(
        "v1", "Service", name, spec={"ports": [{"name": f"p{n}", "port": 80 + n} for n in range(ports)], **spec}
    )


def claim(name: str, storage: str, storage_class: str = "") -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return _obj("v1", "PersistentVolumeClaim", name, spec={**spec, "storageClassName": storage_class})


def plain(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Obj:
    return _obj(api_version, kind, name, **fields)


def quota(hard: dict[str, str], name: str = "q", scopes: Any = None, selector: Any = None) -> Obj:
    spec: Obj = {"hard": hard}
    if scopes:
        spec["scopes"] = scopes
    if selector:
        spec["scopeSelector"] = {"matchExpressions": [selector]}
    return _obj("v1", "ResourceQuota", name, spec=spec)


def _obj(api_version: str, kind: str, name: str, **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _exceeded(requested: str, used: str, limited: str, name: str = "q") -> str:
    return f"exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"


def _near(term: Obj) -> Obj:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}, **term}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


_CLASS = "gold.storageclass.storage.k8s.io/"
CASES = [
    Case(
        "pods",
        quota({"pods": "2", "count/pods": "3"}),
        [(pod("a"), ""), (pod("b"), ""), (pod("c"), _exceeded("pods=1", "pods=2", "pods=2"))],
        {"pods": "2", "count/pods": "2"},
    ),
    Case(
        "cpu-and-memory",
        quota({"cpu": "2", "requests.memory": "1Gi", "limits.cpu": "4", "limits.memory": "2Gi"}),
        [
            (pod("a", {"cpu": "1500m", "memory": "512Mi"}, {"cpu": "2", "memory": "1Gi"}), ""),
            (
                pod("b", {"cpu": "600m", "memory": "513Mi"}, {"cpu": "1", "memory": "1Gi"}),
                _exceeded(
                    "cpu=600m,requests.memory=513Mi", "cpu=1500m,requests.memory=512Mi", "cpu=2,requests.memory=1Gi"
                ),
            ),
            (pod("c", {"cpu": "500m", "memory": "512Mi"}, {"cpu": "2", "memory": "1Gi"}), ""),
        ],
        {"cpu": "2", "requests.memory": "1Gi", "limits.cpu": "4", "limits.memory": "2Gi"},
    ),
    Case(
        "what-is-counted-must-be-said",
        quota({"requests.cpu": "1", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"}),
        [
            (pod("a"), "failed quota: q: must specify limits.memory for: main; requests.cpu for: main"),
            (pod("b", {"cpu": "1"}), "failed quota: q: must specify limits.memory for: main"),
            (
                pod(
                    "c",
                    {"cpu": "1"},
                    {"memory": "1Mi"},
                    initContainers=[{"name": "first", "image": "none:1"}, {"name": "early", "image": "none:1"}],
                ),
                "failed quota: q: must specify limits.memory for: early,first; requests.cpu for: early,first",
            ),
            (pod("d", {"cpu": "300m"}, {"memory": "1Mi"}), ""),
        ],
        {"requests.cpu": "300m", "limits.memory": "1Mi", "requests.ephemeral-storage": "0"},
    ),
    Case(
        "a-pod-may-say-it-for-all-its-containers",
        quota({"requests.cpu": "3", "limits.memory": "3Gi"}),
        [
            (pod("a", resources={"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}), ""),
            (pod("b", resources={"requests": {"cpu": "1"}}), ""),
            (
                pod("c", {"cpu": "1"}, {"memory": "1Gi"}, resources={"requests": {"cpu": "2"}}),
                _exceeded("requests.cpu=2", "requests.cpu=2", "requests.cpu=3"),
            ),
        ],
        {"requests.cpu": "2", "limits.memory": "1Gi"},
    ),
    Case(
        "extended-resources",
        quota({f"requests.{GPU}": "3", "pods": "9"}),
        [
            (pod("a", {GPU: "2"}, {GPU: "2"}), ""),
            (
                pod("b", {GPU: "2"}, {GPU: "2"}),
                _exceeded(f"requests.{GPU}=2", f"requests.{GPU}=2", f"requests.{GPU}=3"),
            ),
            (pod("c"), ""),
        ],
        {f"requests.{GPU}": "2", "pods": "2"},
    ),
    Case(
        "services",
        quota({"services": "3", "services.nodeports": "3", "services.loadbalancers": "1"}),
        [
            (service("a"), ""),
            (service("b", 2, type="NodePort"), ""),
            (
                service("c", 2, type="LoadBalancer"),
                _exceeded("services.nodeports=2", "services.nodeports=2", "services.nodeports=3"),
            ),
            (service("d", 2, type="LoadBalancer", allocateLoadBalancerNodePorts=False), ""),
            (
                service("e", type="LoadBalancer"),
                _exceeded(
                    "services=1,services.loadbalancers=1",
                    "services=3,services.loadbalancers=1",
                    "services=3,services.loadbalancers=1",
                ),
            ),
        ],
        {"services": "3", "services.nodeports": "2", "services.loadbalancers": "1"},
    ),
    Case(
        "claims",
        quota(
            {
                "persistentvolumeclaims": "3",
                "requests.storage": "10Gi",
                f"{_CLASS}requests.storage": "4Gi",
                f"{_CLASS}persistentvolumeclaims": "2",
            }
        ),
        [
            (claim("a", "3Gi", "gold"), ""),
            (
                claim("b", "2Gi", "gold"),
                _exceeded(
                    f"{_CLASS}requests.storage=2Gi", f"{_CLASS}requests.storage=3Gi", f"{_CLASS}requests.storage=4Gi"
                ),
            ),
            (claim("c", "6Gi", "lead"), ""),
            (claim("d", "2Gi"), _exceeded("requests.storage=2Gi", "requests.storage=9Gi", "requests.storage=10Gi")),
        ],
        {
            "persistentvolumeclaims": "2",
            "requests.storage": "9Gi",
            f"{_CLASS}requests.storage": "3Gi",
            f"{_CLASS}persistentvolumeclaims": "1",
        },
    ),
    Case(
        "plain-objects",
        # Every namespace has a ConfigMap from the start.
        quota({"configmaps": "2", "secrets": "1", "resourcequotas": "1", "count/leases.coordination.k8s.io": "1"}),
        [
            (plain("ConfigMap", "a"), ""),
            (plain("ConfigMap", "b"), _exceeded("configmaps=1", "configmaps=2", "configmaps=2")),
            (plain("Secret", "a"), ""),
            (plain("Secret", "b"), _exceeded("secrets=1", "secrets=1", "secrets=1")),
            (quota({"pods": "1"}, "r"), _exceeded("resourcequotas=1", "resourcequotas=1", "resourcequotas=1")),
            (plain("Lease", "a", "coordination.k8s.io/v1", spec={}), ""),
            (
                plain("Lease", "b", "coordination.k8s.io/v1", spec={}),
                _exceeded(*["count/leases.coordination.k8s.io=1"] * 3),
            ),
        ],
        {"configmaps": "2", "secrets": "1", "resourcequotas": "1", "count/leases.coordination.k8s.io": "1"},
    ),
    Case(
        "terminating",
        quota({"pods": "1"}, scopes=["Terminating"]),
        [
            (pod("a"), ""),
            (pod("b", activeDeadlineSeconds=9), ""),
            (pod("c", activeDeadlineSeconds=9), _exceeded("pods=1", "pods=1", "pods=1")),
            (pod("d"), ""),
        ],
        {"pods": "1"},
    ),
    Case(
        "not-terminating",
        quota({"pods": "1"}, scopes=["NotTerminating"]),
        [(pod("a", activeDeadlineSeconds=9), ""), (pod("b"), ""), (pod("c"), _exceeded("pods=1", "pods=1", "pods=1"))],
        {"pods": "1"},
    ),
    Case(
        "best-effort",
        quota({"pods": "1"}, scopes=["BestEffort"]),
        [
            (pod("a", {"cpu": "1"}), ""),
            (pod("b"), ""),
            (pod("c"), _exceeded("pods=1", "pods=1", "pods=1")),
            (pod("d", {GPU: "1"}, {GPU: "1"}), _exceeded("pods=1", "pods=1", "pods=1")),
        ],
        {"pods": "1"},
    ),
    Case(
        "not-best-effort",
        quota({"pods": "1", "requests.cpu": "1"}, scopes=["NotBestEffort"]),
        [
            (pod("a"), ""),
            (pod("b", {"memory": "1Mi"}), "failed quota: q: must specify requests.cpu for: main"),
            (pod("c", {"cpu": "1"}), ""),
            (pod("d", {"cpu": "1"}), _exceeded(*["pods=1,requests.cpu=1"] * 3)),
        ],
        {"pods": "1", "requests.cpu": "1"},
    ),
    Case(
        "priority-class",
        quota(
            {"pods": "1"}, selector={"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
        ),
        [
            (pod("a"), ""),
            (pod("b", priorityClassName="system-node-critical"), ""),
            (pod("c", priorityClassName="system-cluster-critical"), ""),
            (pod("d", priorityClassName="system-node-critical"), _exceeded("pods=1", "pods=1", "pods=1")),
        ],
        {"pods": "1"},
    ),
    Case(
        "no-priority-class",
        quota({"pods": "1"}, selector={"scopeName": "PriorityClass", "operator": "DoesNotExist"}),
        [
            (pod("a", priorityClassName="system-node-critical"), ""),
            (pod("b"), ""),
            (pod("c"), _exceeded("pods=1", "pods=1", "pods=1")),
        ],
        {"pods": "1"},
    ),
    Case(
        "affinity-to-other-namespaces",
        quota({"pods": "0"}, selector={"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}),
        [
            (pod("a", affinity=_near({})), ""),
            (pod("b", affinity=_near({"namespaces": ["other"]})), _exceeded("pods=1", "pods=0", "pods=0")),
            (pod("c", affinity=_near({"namespaceSelector": {}})), _exceeded("pods=1", "pods=0", "pods=0")),
        ],
        {"pods": "0"},
    ),
]


async def tell(client: Client, obj: Obj, namespace: str) -> str:
    """Create it; what is said against it, behind its name."""
    kind, name = kind_of(obj), obj["metadata"]["name"]
    assert kind is not None
    try:
        await client.create(kind, {**obj, "metadata": {**obj["metadata"], "namespace": namespace}})
    except Forbidden as refused:
        told, details = str(refused), refused.details
    else:
        return ""
    assert details == {"name": name, "kind": kind.plural, **({"group": kind.group} if kind.group else {})}
    assert told.startswith(f'{kind.resource} "{name}" is forbidden: ')
    return told.partition(" is forbidden: ")[2]


async def status(client: Client, namespace: str) -> Obj:
    found = await client.get(RESOURCE_QUOTA, "q", namespace)
    return dict(found.get("status") or {})
