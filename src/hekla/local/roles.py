"""What each component may do, and not more: one cluster role each, the same on the local cluster and on a real one.

`tests/cluster/test_install.py` runs everything with exactly these; a verb that a component lacks shows there, and on
the local cluster, as a refusal in its log. Beside them: what the roles `view` and `edit` mean for Volcano's kinds.
"""

from __future__ import annotations

from hekla.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Obj

_RBAC = CLUSTER_ROLE.group
_TO_VIEW = f"{_RBAC}/aggregate-to-view"
_WATCH = ("list", "watch")
_READ = ("get", "list", "watch")
_TELL = ("create", "patch")
_OWN = ("create", "delete", "get", "update")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
LABELS = {"app.kubernetes.io/part-of": "hekla"}
PART_OF = "app.kubernetes.io/part-of=hekla"

# Group ("core" for Kubernetes' own), resources, verbs.
Rule = tuple[str, str, tuple[str, ...]]

CONTROLLERS: tuple[Rule, ...] = (
    ("batch.volcano.sh", "jobs", ("create", "delete", "get", "list", "update", "watch")),
    ("batch.volcano.sh", "cronjobs", _READ),
    ("batch.volcano.sh", "jobs/status cronjobs/status", ("patch", "update")),
    ("bus.volcano.sh", "commands", ("delete", "get", "list", "patch", "watch")),
    ("flow.volcano.sh", "jobflows", _WATCH),
    ("flow.volcano.sh", "jobtemplates", _READ),
    ("flow.volcano.sh", "jobflows/status jobtemplates/status", ("patch", "update")),
    ("scheduling.volcano.sh", "podgroups", ("create", "delete", "get", "list", "patch", "watch")),
    ("scheduling.volcano.sh", "queues", ("create", "get", "list", "patch", "watch")),
    ("scheduling.volcano.sh", "queues/status", ("patch",)),
    ("core", "pods", ("create", "delete", "get", "list", "patch", "watch")),
    # Never list or watch: whoever holds this role cannot look around in other people's Secrets.
    ("core", "secrets", _OWN),
    ("core", "configmaps services", (*_OWN, *_WATCH)),
    ("core", "persistentvolumeclaims", ("create", "get")),
    ("core", "nodes", ("get",)),
    ("core", "events", _TELL),
    ("networking.k8s.io", "networkpolicies", (*_OWN, *_WATCH)),
    ("scheduling.k8s.io", "priorityclasses", _WATCH),
    ("apps", "daemonsets replicasets statefulsets", ("get",)),
    ("batch", "jobs", ("get",)),
)
SCHEDULER: tuple[Rule, ...] = (
    # Patched to let pods through the scheduling gate of their queue.
    ("core", "pods", ("delete", "get", "list", "patch", "watch")),
    ("core", "pods/binding", ("create",)),
    ("core", "pods/status", ("patch",)),
    ("core", "namespaces nodes replicationcontrollers resourcequotas services", _WATCH),
    ("apps", "replicasets statefulsets", _WATCH),
    ("core", "persistentvolumeclaims persistentvolumes", ("list", "patch", "watch")),
    ("core", "events", _TELL),
    ("policy", "poddisruptionbudgets", _WATCH),
    ("scheduling.k8s.io", "priorityclasses", _WATCH),
    ("storage.k8s.io", "csinodes storageclasses", _WATCH),
    ("scheduling.volcano.sh", "podgroups", ("list", "patch", "watch")),
    ("scheduling.volcano.sh", "queues", ("create", "get", "list", "watch")),
    ("scheduling.volcano.sh", "queues/status", ("patch",)),
    ("topology.volcano.sh", "hypernodes", _WATCH),
)
WEBHOOK: tuple[Rule, ...] = (
    ("core", "namespaces", ("get",)),
    ("scheduling.volcano.sh", "queues", ("get", "list")),
)
NODE: tuple[Rule, ...] = (
    ("core", "nodes", ("create", "get", "patch")),
    ("core", "nodes/status", ("patch",)),
    ("core", "pods", ("delete", "get", "list", "watch")),
    ("core", "pods/status", ("patch",)),
    ("core", "namespaces services", _WATCH),
    # As a kubelet: what pods have mounted is followed while they run.
    ("core", "configmaps secrets", _READ),
    ("core", "persistentvolumeclaims persistentvolumes", ("get",)),
    ("core", "serviceaccounts/token", ("create",)),
    ("core", "events", _TELL),
    ("coordination.k8s.io", "leases", ("create", "patch")),
    ("networking.k8s.io", "networkpolicies", _WATCH),
    # Logs of pods that are gone stay as long as their Job.
    ("batch.volcano.sh", "jobs", _READ),
)
# What kube-controller-manager is on a real cluster: it removes whatever has no owner or no namespace left.
BUILTINS: tuple[Rule, ...] = (
    ("*", "*", ("delete", "deletecollection", "get", "list", "patch", "update", "watch")),
    ("core", "configmaps endpoints persistentvolumes serviceaccounts serviceaccounts/token", ("create",)),
    ("discovery.k8s.io", "endpointslices", ("create",)),
    ("storage.k8s.io", "storageclasses", ("create",)),
    (_RBAC, "clusterroles", ("escalate",)),
)
_VOLCANO: tuple[tuple[str, str], ...] = (
    ("batch.volcano.sh", "jobs cronjobs"),
    ("bus.volcano.sh", "commands"),
    ("flow.volcano.sh", "jobflows jobtemplates"),
    ("scheduling.volcano.sh", "podgroups"),
)

ROLES: dict[str, tuple[Rule, ...]] = {
    "controllers": CONTROLLERS,
    "scheduler": SCHEDULER,
    "webhook": WEBHOOK,
    "node": NODE,
    "builtins": BUILTINS,
}


def role_name(component: str) -> str:
    return f"hekla:{component}"


def component_user(component: str) -> str:
    """Whom a component of the local cluster is known as."""
    return f"system:hekla:{component}"


def local_access() -> list[Obj]:
    """Roles and bindings of a local cluster, where components are users."""
    bindings = [
        component_binding(name, {"kind": "User", "apiGroup": _RBAC, "name": component_user(name)}) for name in ROLES
    ]
    return [*(component_role(name) for name in ROLES), *people_roles(), _usage_role(), *bindings]


def component_role(component: str) -> Obj:
    return _cluster_role(role_name(component), [_rule(*rule) for rule in ROLES[component]])


def component_binding(component: str, subject: Obj) -> Obj:
    name = role_name(component)
    return {
        "apiVersion": CLUSTER_ROLE_BINDING.api_version,
        "kind": CLUSTER_ROLE_BINDING.kind,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "roleRef": {"apiGroup": _RBAC, "kind": CLUSTER_ROLE.kind, "name": name},
        "subjects": [subject],
    }


def people_roles() -> list[Obj]:
    """What `view`, `edit` and `admin` grant of Volcano's kinds, through the labels those roles collect by."""
    queues = _rule("scheduling.volcano.sh", "queues", _READ)
    view = [_rule(group, resources, _READ) for group, resources in _VOLCANO]
    edit = [_rule(group, resources, _WRITE) for group, resources in _VOLCANO]
    return [
        _cluster_role("hekla:view", [*view, queues], {_TO_VIEW: "true"}),
        _cluster_role("hekla:edit", edit, {f"{_RBAC}/aggregate-to-edit": "true"}),
    ]


def _usage_role() -> Obj:
    """What `view` grants of what pods use. On other clusters metrics-server brings this role itself."""
    rules = [_rule("metrics.k8s.io", "nodes pods", _READ)]
    return _cluster_role("system:aggregated-metrics-reader", rules, {_TO_VIEW: "true"})


def _cluster_role(name: str, rules: list[Obj], labels: dict[str, str] | None = None) -> Obj:
    return {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": CLUSTER_ROLE.kind,
        "metadata": {"name": name, "labels": {**LABELS, **(labels or {})}},
        "rules": rules,
    }


def _rule(group: str, resources: str, verbs: tuple[str, ...]) -> Obj:
    return {
        "apiGroups": ["" if group == "core" else group],
        "resources": resources.split(),
        "verbs": list(verbs),
    }
