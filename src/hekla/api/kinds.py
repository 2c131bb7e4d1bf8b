"""The table of kinds: everything that needs a path, a plural or an apiVersion looks it up here.

Objects themselves travel as plain dicts in wire shape (`Obj`), so unknown fields survive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Compared and looked up with every write, so by what tells kinds and their paths apart and by nothing else."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = field(default="")

    def __post_init__(self) -> None:
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Kind)
            and self.kind == other.kind
            and self.group == other.group
            and self.version == other.version
            and self.plural == other.plural
            and self.namespaced == other.namespaced
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.group, self.version, self.plural))

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`jobs.batch.volcano.sh`, or just `pods` for the core group: how errors name a resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The URL path; without namespace, a namespaced kind's path across all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def owns_reference(self, reference: Obj) -> bool:
        """Whether an ownerReference points at an object of this kind (any version of the group)."""
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        return group == self.group and reference.get("kind") == self.kind


# core
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False, ("ns",), ("status", "finalize"))
NODE = Kind("", "v1", "Node", "nodes", False, ("no",), ("status",))
POD = Kind(
    "",
    "v1",
    "Pod",
    "pods",
    True,
    ("po",),
    ("status", "binding", "eviction", "log", "exec"),
    ("all",),
)
SERVICE = Kind("", "v1", "Service", "services", True, ("svc",), ("status",), ("all",))
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", True, ("ep",), singular="endpoints")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",))
SECRET = Kind("", "v1", "Secret", "secrets")
EVENT = Kind("", "v1", "Event", "events", True, ("ev",))
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), ("token",))
PERSISTENT_VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), ("status",))
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",), ("status",))
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), ("status",))
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", True, ("limits",))
POD_TEMPLATE = Kind("", "v1", "PodTemplate", "podtemplates")
REPLICATION_CONTROLLER = Kind(
    "", "v1", "ReplicationController", "replicationcontrollers", True, ("rc",), ("status", "scale"), ("all",)
)

# other built-in groups
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", True, ("deploy",), ("status", "scale"), ("all",))
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), ("status", "scale"), ("all",))
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), ("status", "scale"), ("all",))
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), ("status",), ("all",))
BATCH_JOB = Kind("batch", "v1", "Job", "jobs", True, (), ("status",), ("all",))
BATCH_CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), ("status",), ("all",))
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",))
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), ("status",))
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
CLUSTER_ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",))
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",))
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False)
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    ("crd", "crds"),
    ("status",),
    ("api-extensions",),
)
MUTATING_WEBHOOK_CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    False,
    categories=("api-extensions",),
)
VALIDATING_WEBHOOK_CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    categories=("api-extensions",),
)

# Volcano's, served from the CRDs in api/crds
JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", True, ("vcjob", "vj"), ("status",))
CRON_JOB = Kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs", True, ("cronvcjob", "cronvj"), ("status",))
COMMAND = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands")
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", False, ("q", "queue-v1beta1"), ("status",))
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", True, ("pg", "podgroup-v1beta1"))
JOB_FLOW = Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", True, ("jf",), ("status",))
JOB_TEMPLATE = Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates", True, ("jt",), ("status",))
HYPER_NODE = Kind("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", False, ("hn",), ("status",))
NUMA_TOPOLOGY = Kind("nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies", False, ("numatopo",))
NODE_SHARD = Kind("shard.volcano.sh", "v1alpha1", "NodeShard", "nodeshards", False, ("nsh",), ("status",))
COLOCATION_CONFIGURATION = Kind(
    "config.volcano.sh",
    "v1alpha1",
    "ColocationConfiguration",
    "colocationconfigurations",
    subresources=("status",),
)

BUILT_IN_KINDS: tuple[Kind, ...] = (
    NAMESPACE, NODE, POD, SERVICE, ENDPOINTS, CONFIG_MAP, SECRET, EVENT, SERVICE_ACCOUNT, PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM, RESOURCE_QUOTA, LIMIT_RANGE, POD_TEMPLATE, REPLICATION_CONTROLLER,
    DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB, BATCH_CRON_JOB, LEASE, ENDPOINT_SLICE,
    NETWORK_POLICY, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, PRIORITY_CLASS,
    STORAGE_CLASS, CSI_NODE, CUSTOM_RESOURCE_DEFINITION, MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)  # fmt: skip
VOLCANO_KINDS: tuple[Kind, ...] = (
    JOB, CRON_JOB, COMMAND, QUEUE, POD_GROUP, JOB_FLOW, JOB_TEMPLATE, HYPER_NODE, NUMA_TOPOLOGY, NODE_SHARD,
    COLOCATION_CONFIGURATION,
)  # fmt: skip

_BY_TYPE = {(kind.api_version, kind.kind): kind for kind in BUILT_IN_KINDS + VOLCANO_KINDS}


def kind_of(obj: Obj) -> Kind | None:
    """The table's entry for an object's apiVersion and kind; None for a kind we do not know."""
    return _BY_TYPE.get((str(obj.get("apiVersion", "")), str(obj.get("kind", ""))))
