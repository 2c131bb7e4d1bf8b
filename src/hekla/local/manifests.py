"""What a real cluster is given: access for each component and, when an image is named, the components themselves.

Every pod meets the Pod Security profile `restricted`; nothing listens but the webhook.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from hekla.api.batch import SCHEDULER_NAME
from hekla.api.kinds import LEASE, ROLE, ROLE_BINDING, Obj
from hekla.local.roles import LABELS, component_binding, component_role, people_roles

if TYPE_CHECKING:
    from hekla.local.webhook_tls import WebhookTls

# Upstream's, which the webhook configurations leave alone.
NAMESPACE = "volcano-system"
WEBHOOK_SERVICE = "hekla-webhook"
WEBHOOK_NAMES = [f"{WEBHOOK_SERVICE}.{NAMESPACE}.svc", f"{WEBHOOK_SERVICE}.{NAMESPACE}.svc.cluster.local"]
WEBHOOK_PORT = 8443
TLS_SECRET = "hekla-webhook-tls"  # noqa: S105 - its name
_TLS_PATH = "/etc/hekla/tls"
_INSTALLED = ("controllers", "scheduler", "webhook")
# Of which several may run and one acts: the Lease each holds meanwhile, as upstream calls it.
LEASES = {"controllers": "vc-controller-manager", "scheduler": SCHEDULER_NAME}
_REPLICAS = 2
_CERTIFICATE = "hekla.dev/certificate-digest"
_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}


def access_manifests(*, with_node: bool = False) -> list[Obj]:
    """The namespace, an account for each component, and what it may do.

    A node's account may issue tokens and read every Secret, as a kubelet may: made only where it is asked for.
    """
    found: list[Obj] = [_object("v1", "Namespace", NAMESPACE, labels=_RESTRICTED, namespaced=False)]
    for component in (*_INSTALLED, "node") if with_node else _INSTALLED:
        # The token is mounted by those pods that ask for it.
        found.append(_object("v1", "ServiceAccount", account_name(component), automountServiceAccountToken=False))
        found.append(component_role(component))
        subject = {"kind": "ServiceAccount", "name": account_name(component), "namespace": NAMESPACE}
        found.append(component_binding(component, subject))
        if component in LEASES:
            found += _lease_access(component, LEASES[component], subject)
    return found + people_roles()


def component_manifests(image: str, tls: WebhookTls) -> list[Obj]:
    """The components as Deployments, and what makes the webhook reachable."""
    serving = [
        "--port", str(WEBHOOK_PORT), "--tls-cert-file", f"{_TLS_PATH}/tls.crt",
        "--tls-private-key-file", f"{_TLS_PATH}/tls.key", "--ca-cert-file", f"{_TLS_PATH}/ca.crt",
    ]  # fmt: skip
    webhook = _deployment("webhook", image, serving)
    # With another certificate the pods start anew, sooner than the kubelet brings it to those that run.
    digest = hashlib.sha256(tls.authority + tls.certificate).hexdigest()[:16]
    webhook["spec"]["template"]["metadata"]["annotations"] = {_CERTIFICATE: digest}
    return [
        _object("v1", "Secret", TLS_SECRET, type="kubernetes.io/tls", stringData=tls.to_secret_data()),
        # One of two acts and the other stands by: a machine that is lost costs seconds.
        *(_deployment(component, image, ["--leader-elect=true"]) for component in LEASES),
        webhook,
        _object(
            "v1",
            "Service",
            WEBHOOK_SERVICE,
            spec={
                "selector": _selector("webhook"),
                "ports": [{"name": "https", "port": 443, "targetPort": WEBHOOK_PORT}],
            },
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            WEBHOOK_SERVICE,
            spec={"minAvailable": 1, "selector": {"matchLabels": _selector("webhook")}},
        ),
        _network_policy("hekla-closed", {"app.kubernetes.io/part-of": "hekla"}, []),
        _network_policy(
            WEBHOOK_SERVICE, _selector("webhook"), [{"ports": [{"protocol": "TCP", "port": WEBHOOK_PORT}]}]
        ),
    ]


def webhook_location(path: str) -> Obj:
    """How a webhook configuration names the service behind a path."""
    return {"service": {"name": WEBHOOK_SERVICE, "namespace": NAMESPACE, "path": path, "port": 443}}


def account_name(component: str) -> str:
    return f"hekla-{component}"


def _lease_access(component: str, lease: str, subject: Obj) -> list[Obj]:
    """Its own Lease and no other; to make one cannot be granted by name."""
    name = f"{account_name(component)}-lease"
    rules = [
        {"apiGroups": [LEASE.group], "resources": [LEASE.plural], "verbs": ["create"]},
        {"apiGroups": [LEASE.group], "resources": [LEASE.plural], "resourceNames": [lease], "verbs": ["get", "update"]},
    ]
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name}
    return [
        _object(ROLE.api_version, ROLE.kind, name, rules=rules),
        _object(ROLE_BINDING.api_version, ROLE_BINDING.kind, name, roleRef=role, subjects=[subject]),
    ]


def _deployment(component: str, image: str, arguments: list[str]) -> Obj:
    labels = {**LABELS, **_selector(component)}
    container: Obj = {
        "name": component,
        "image": image,
        "args": [component, *arguments],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - inside the container
    }
    volumes: list[Obj] = [{"name": "tmp", "emptyDir": {}}]
    if component == "webhook":
        container["ports"] = [{"name": "https", "containerPort": WEBHOOK_PORT}]
        container["readinessProbe"] = {"httpGet": {"path": "/healthz", "port": WEBHOOK_PORT, "scheme": "HTTPS"}}
        container["volumeMounts"].append({"name": "tls", "mountPath": _TLS_PATH, "readOnly": True})
        volumes.append({"name": "tls", "secret": {"secretName": TLS_SECRET}})
    pod = {
        "serviceAccountName": account_name(component),
        "automountServiceAccountToken": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _selector(component)},
            }
        ],
        "containers": [container],
        "volumes": volumes,
    }
    spec = {
        "replicas": _REPLICAS,
        "selector": {"matchLabels": _selector(component)},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", account_name(component), labels=labels, spec=spec)


def _network_policy(name: str, pods: dict[str, str], ingress: list[Obj]) -> Obj:
    spec = {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress}
    return _object("networking.k8s.io/v1", "NetworkPolicy", name, spec=spec)


def _selector(component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": account_name(component)}


def _object(
    version: str, kind: str, name: str, *, labels: dict[str, str] | None = None, namespaced: bool = True, **fields: Any
) -> Obj:
    metadata: Obj = {"name": name, "labels": {**LABELS, **(labels or {})}}
    if namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
