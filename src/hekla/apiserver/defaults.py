"""Defaults of Kubernetes' own kinds: what the real server fills in and batch work can see.

Each function changes the object in place and may be run again on its own result.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from hekla.api.kinds import Obj
from hekla.api.quantity import parse
from hekla.apiserver.access.validating import default_binding, default_role
from hekla.apiserver.services import default_service

Defaulter = Callable[[Obj], None]
_NO_EXECUTE = (("node.kubernetes.io/not-ready", 300), ("node.kubernetes.io/unreachable", 300))
_QOS_RESOURCES = ("cpu", "memory")
# parity: whatever else a claim is to be filled from is forgotten; only the newer field may name it.
_COPIED = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def default_pod(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        # parity: less than no time is a second.
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("tolerations", [])
    present = {(each.get("key"), each.get("effect", "NoExecute")) for each in spec["tolerations"]}
    everything = any(not each.get("key") and each.get("operator") == "Exists" for each in spec["tolerations"])
    for key, seconds in _NO_EXECUTE:
        if (key, "NoExecute") not in present and not everything:
            spec["tolerations"].append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            )
    status = pod.get("status") or {}
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    spec.setdefault("enableServiceLinks", True)


def default_pod_status(pod: Obj) -> None:
    """At creation: whatever status was sent is replaced."""
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def default_pod_spec(spec: Obj) -> None:
    _fill(spec, "restartPolicy", "Always")
    _fill(spec, "dnsPolicy", "ClusterFirst")
    _fill(spec, "schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        if isinstance(container, dict):
            _default_container(container, bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes", ()):
        if isinstance(volume, dict):
            _default_volume(volume)


def _default_container(container: Obj, host_network: bool) -> None:
    _fill(container, "terminationMessagePath", "/dev/termination-log")
    _fill(container, "terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(str(container.get("image", "")))
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)
    for port in container.get("ports", ()):
        _fill(port, "protocol", "TCP")
        if host_network:
            _fill(port, "hostPort", port.get("containerPort"))
    for variable in container.get("env", ()):
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field:
            _fill(field, "apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])


def _fill(obj: Obj, name: str, value: Any) -> None:
    """Where the type of a field does not tell nothing from empty, both are filled in."""
    if not obj.get(name):
        obj[name] = value


def _pull_policy(image: str) -> str:
    tail = image.rpartition("/")[2]
    if "@" in tail:
        return "IfNotPresent"
    tag = tail.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Obj) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        _fill(probe, name, value)
    if "httpGet" in probe:
        _fill(probe["httpGet"], "path", "/")
        _fill(probe["httpGet"], "scheme", "HTTP")


def _default_volume(volume: Obj) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 420)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            if "fieldRef" in item:
                item["fieldRef"].setdefault("apiVersion", "v1")


def qos_class(spec: Obj) -> str:
    """Guaranteed when every container limits cpu and memory to what it requests, BestEffort when none asks at all."""
    guaranteed, asks = True, False
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        asks = asks or any(name in requests or name in limits for name in _QOS_RESOURCES)
        for name in _QOS_RESOURCES:
            limit = limits.get(name)
            if limit is None or parse(limit) == 0 or parse(requests.get(name, limit)) != parse(limit):
                guaranteed = False
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _default_secret(secret: Obj) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None)
    if plain:
        data = secret.setdefault("data", {})
        for name, text in plain.items():
            data[name] = base64.b64encode(text.encode()).decode()


def _default_namespace(namespace: Obj) -> None:
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = namespace["metadata"].get(
        "name", ""
    )
    spec = namespace.setdefault("spec", {})
    if not namespace["metadata"].get("deletionTimestamp"):
        spec.setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _default_node(node: Obj) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _default_claim(claim: Obj) -> None:
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    source = spec.get("dataSource")
    if source is not None and (source.get("apiGroup") or "", source.get("kind")) not in _COPIED:
        del spec["dataSource"]
    # What one of the two says, the other says as well.
    if "dataSource" in spec:
        spec.setdefault("dataSourceRef", dict(spec["dataSource"]))
    elif "dataSourceRef" in spec and not spec["dataSourceRef"].get("namespace"):
        spec["dataSource"] = dict(spec["dataSourceRef"])
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _default_volume_object(volume: Obj) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def _default_limit_range(limit_range: Obj) -> None:
    """A container gets the most that is allowed, and is taken to ask for as much as it gets."""
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            limits, requests = item.setdefault("default", {}), item.setdefault("defaultRequest", {})
            for given, filled in ((item.get("max"), limits), (limits, requests), (item.get("min"), requests)):
                for name, amount in (given or {}).items():
                    filled.setdefault(name, amount)


def _default_budget(budget: Obj) -> None:
    status = budget.setdefault("status", {})
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)


def _default_priority_class(priority_class: Obj) -> None:
    priority_class.setdefault("value", 0)
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _default_network_policy(policy: Obj) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*spec.get("ingress", ()), *spec.get("egress", ())]:
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def _default_storage_class(storage_class: Obj) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _default_definition(definition: Obj) -> None:
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _default_deployment(deployment: Obj) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _default_template(spec)
    deployment.setdefault("status", {})


def _default_replicas(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def _default_batch_job(job: Obj) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("parallelism") is None:
        # With a parallelism and no completions, its pods say when it is done.
        spec.setdefault("completions", 1)
    for name, value in (("parallelism", 1), ("backoffLimit", 6), ("suspend", False)):
        spec.setdefault(name, value)
    spec.setdefault("completionMode", "NonIndexed")
    _default_template(spec)


def _default_template(spec: Obj) -> None:
    template: dict[str, Any] = spec.setdefault("template", {})
    default_pod_spec(template.setdefault("spec", {}))


def _default_event(event: Obj) -> None:
    event.setdefault("involvedObject", {})
    event.setdefault("source", {})
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")


DEFAULTERS: dict[str, Defaulter] = {
    "/pods": default_pod,
    "/services": default_service,
    "/secrets": _default_secret,
    "/namespaces": _default_namespace,
    "/nodes": _default_node,
    "/events": _default_event,
    "/persistentvolumeclaims": _default_claim,
    "/limitranges": _default_limit_range,
    "/persistentvolumes": _default_volume_object,
    "policy/poddisruptionbudgets": _default_budget,
    "scheduling.k8s.io/priorityclasses": _default_priority_class,
    "networking.k8s.io/networkpolicies": _default_network_policy,
    "storage.k8s.io/storageclasses": _default_storage_class,
    "apiextensions.k8s.io/customresourcedefinitions": _default_definition,
    "apps/deployments": _default_deployment,
    "apps/replicasets": _default_replicas,
    "apps/statefulsets": _default_replicas,
    "batch/jobs": _default_batch_job,
    "rbac.authorization.k8s.io/roles": default_role,
    "rbac.authorization.k8s.io/clusterroles": default_role,
    "rbac.authorization.k8s.io/rolebindings": default_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": default_binding,
}

__all__ = ["DEFAULTERS", "default_pod", "default_pod_status", "qos_class"]
