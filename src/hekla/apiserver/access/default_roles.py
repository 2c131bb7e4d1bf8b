"""The cluster roles every cluster has, and to whom they are bound; the rules are those of Kubernetes 1.36."""

from __future__ import annotations

from hekla.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Kind, Obj
from hekla.api.rbac import aggregated_rules
from hekla.apiserver.access.user import AUTHENTICATED, MASTERS

_GROUP = CLUSTER_ROLE.group
_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")

Rule = tuple[str, str, tuple[str, ...]]  # groups and resources, separated by blanks ("core" is the core group); verbs

_VIEW: tuple[Rule, ...] = (
    (
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "
        "replicationcontrollers/scale serviceaccounts services services/status",
        _READ,
    ),
    (
        "core",
        "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas "
        "resourcequotas/status",
        _READ,
    ),
    ("core", "namespaces", _READ),
    ("core events.k8s.io", "events", _READ),
    ("discovery.k8s.io", "endpointslices", _READ),
    (
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets "
        "replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
        _READ,
    ),
    ("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", _READ),
    ("batch", "cronjobs cronjobs/status jobs jobs/status", _READ),
    (
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status "
        "networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
        _READ,
    ),
    ("policy", "poddisruptionbudgets poddisruptionbudgets/status", _READ),
    ("networking.k8s.io", "ingresses ingresses/status networkpolicies", _READ),
    ("resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates", _READ),
)
_EDIT: tuple[Rule, ...] = (
    ("core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", _READ),
    ("core", "serviceaccounts", ("impersonate",)),
    ("core", "pods pods/attach pods/exec pods/portforward pods/proxy", _WRITE),
    ("core", "pods/eviction", ("create",)),
    (
        "core",
        "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts "
        "services services/proxy",
        _WRITE,
    ),
    ("core", "serviceaccounts/token", ("create",)),
    ("core events.k8s.io", "events", _WRITE),
    (
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets "
        "statefulsets/scale",
        _WRITE,
    ),
    ("autoscaling", "horizontalpodautoscalers", _WRITE),
    ("batch", "cronjobs jobs", _WRITE),
    (
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets "
        "replicasets/scale replicationcontrollers/scale",
        _WRITE,
    ),
    ("policy", "poddisruptionbudgets", _WRITE),
    ("networking.k8s.io", "ingresses networkpolicies", _WRITE),
    ("coordination.k8s.io", "leases", _ALL),
    ("resource.k8s.io", "resourceclaims resourceclaimtemplates", _WRITE),
)
_ADMIN: tuple[Rule, ...] = (
    ("authorization.k8s.io", "localsubjectaccessreviews", ("create",)),
    (_GROUP, "rolebindings roles", _ALL),
)
_DISCOVERY = (
    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
    "/version/",
)  # fmt: skip
_MONITORING = (
    "/flagz", "/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*",
    "/statusz",
)  # fmt: skip


def default_roles() -> list[tuple[Kind, Obj]]:
    """Roles first, then bindings. Roles made of others have their rules already."""
    roles = [
        _role("cluster-admin", [_rule("*", "*", ("*",)), _path_rule(("*",), ("*",))]),
        _role("system:aggregate-to-admin", _rules(_ADMIN), part_of="admin"),
        _role("system:aggregate-to-edit", _rules(_EDIT), part_of="edit"),
        _role("system:aggregate-to-view", _rules(_VIEW), part_of="view"),
        _role("view", made_of="view", part_of="edit"),
        _role("edit", made_of="edit", part_of="admin"),
        _role("admin", made_of="admin"),
        _role(
            "system:basic-user",
            [
                _rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", ("create",)),
                _rule("authentication.k8s.io", "selfsubjectreviews", ("create",)),
            ],
        ),
        _role("system:discovery", [_path_rule(_DISCOVERY)]),
        _role("system:public-info-viewer", [_path_rule(_HEALTH)]),
        _role("system:monitoring", [_path_rule(_MONITORING), _rule("core", "nodes/metrics", ("get",))]),
        _role(
            "system:auth-delegator",
            [
                _rule("authentication.k8s.io", "tokenreviews", ("create",)),
                _rule("authorization.k8s.io", "subjectaccessreviews", ("create",)),
            ],
        ),
    ]
    for role in roles:
        # In this order what a role is made of comes before it.
        rules = aggregated_rules(role, roles)
        if rules is not None:
            role["rules"] = rules
    bindings = [
        _binding("cluster-admin", MASTERS),
        _binding("system:basic-user", AUTHENTICATED),
        _binding("system:discovery", AUTHENTICATED),
        _binding("system:public-info-viewer", AUTHENTICATED, "system:unauthenticated"),
        _binding("system:monitoring", "system:monitoring"),
    ]
    return [*((CLUSTER_ROLE, role) for role in roles), *((CLUSTER_ROLE_BINDING, each) for each in bindings)]


def _role(name: str, rules: list[Obj] | None = None, *, part_of: str = "", made_of: str = "") -> Obj:
    labels = {**_LABEL, **({f"{_GROUP}/aggregate-to-{part_of}": "true"} if part_of else {})}
    role: Obj = {"metadata": {"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}}, "rules": rules}
    if made_of:
        selector = {"matchLabels": {f"{_GROUP}/aggregate-to-{made_of}": "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _binding(role: str, *groups: str) -> Obj:
    return {
        "metadata": {"name": role, "labels": dict(_LABEL), "annotations": {AUTO_UPDATE: "true"}},
        "roleRef": {"apiGroup": _GROUP, "kind": CLUSTER_ROLE.kind, "name": role},
        "subjects": [{"kind": "Group", "apiGroup": _GROUP, "name": group} for group in groups],
    }


def _rules(rules: tuple[Rule, ...]) -> list[Obj]:
    return [_rule(*rule) for rule in rules]


def _rule(groups: str, resources: str, verbs: tuple[str, ...]) -> Obj:
    named = ["" if group == "core" else group for group in groups.split()]
    return {"verbs": list(verbs), "apiGroups": named, "resources": resources.split()}


def _path_rule(paths: tuple[str, ...], verbs: tuple[str, ...] = ("get",)) -> Obj:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}
