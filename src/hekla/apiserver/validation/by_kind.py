"""Which rules are asked for which kind: of every object, of a new one, and of one beside what it was."""

from __future__ import annotations

from collections.abc import Callable

from hekla.api.claim_rules import claim_problems
from hekla.api.field import Problem
from hekla.api.kinds import Obj
from hekla.apiserver.access.validating import (
    validate_binding_update,
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_role,
    validate_role_binding,
)
from hekla.apiserver.validation.budgets import validate_budget
from hekla.apiserver.validation.data import (
    validate_config_map,
    validate_immutable_data,
    validate_secret,
    validate_secret_update,
)
from hekla.apiserver.validation.definitions import (
    validate_definition,
    validate_definition_name,
    validate_definition_update,
)
from hekla.apiserver.validation.limit_ranges import validate_limit_range
from hekla.apiserver.validation.network_policies import validate_network_policy
from hekla.apiserver.validation.nodes import validate_node
from hekla.apiserver.validation.pods import validate_pod, validate_pod_update
from hekla.apiserver.validation.priority_classes import validate_priority_class
from hekla.apiserver.validation.quotas import validate_quota
from hekla.apiserver.validation.records import validate_event, validate_lease
from hekla.apiserver.validation.services import validate_service, validate_service_update
from hekla.apiserver.validation.storage import validate_storage_class, validate_volume

Validator = Callable[[Obj], list[Problem]]


def validate_claim(claim: Obj) -> list[Problem]:
    return claim_problems(claim.get("spec") or {}, "spec")


VALIDATORS: dict[str, Validator] = {
    "/pods": validate_pod,
    "/services": validate_service,
    "/configmaps": validate_config_map,
    "/secrets": validate_secret,
    "/persistentvolumeclaims": validate_claim,
    "/persistentvolumes": validate_volume,
    "/resourcequotas": validate_quota,
    "/limitranges": validate_limit_range,
    "/nodes": validate_node,
    "/events": validate_event,
    "coordination.k8s.io/leases": validate_lease,
    "storage.k8s.io/storageclasses": validate_storage_class,
    "networking.k8s.io/networkpolicies": validate_network_policy,
    "policy/poddisruptionbudgets": validate_budget,
    "scheduling.k8s.io/priorityclasses": validate_priority_class,
    "apiextensions.k8s.io/customresourcedefinitions": validate_definition,
    "rbac.authorization.k8s.io/roles": validate_role,
    "rbac.authorization.k8s.io/clusterroles": validate_cluster_role,
    "rbac.authorization.k8s.io/rolebindings": validate_role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": validate_cluster_role_binding,
}
CREATE_VALIDATORS: dict[str, Validator] = {
    "apiextensions.k8s.io/customresourcedefinitions": validate_definition_name,
}
UPDATE_VALIDATORS: dict[str, Callable[[Obj, Obj], list[Problem]]] = {
    "/pods": validate_pod_update,
    "/configmaps": validate_immutable_data,
    "/secrets": validate_secret_update,
    "/services": validate_service_update,
    "apiextensions.k8s.io/customresourcedefinitions": validate_definition_update,
    "rbac.authorization.k8s.io/rolebindings": validate_binding_update,
    "rbac.authorization.k8s.io/clusterrolebindings": validate_binding_update,
}
