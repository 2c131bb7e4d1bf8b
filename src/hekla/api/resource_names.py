"""What resources are called: those everybody knows, and those of somebody, with a domain before their name."""

from __future__ import annotations

from hekla.api.field import Problem, invalid
from hekla.api.names import label_key_problems

OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
COMPUTE = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
COUNTED = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
HUGE_PAGES = "hugepages-"
_OF_QUOTAS = (
    COMPUTE
    | COUNTED
    | {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"}
)


def resource_name_problems(name: str, path: str) -> list[Problem]:
    problems = [invalid(path, name, why) for why in label_key_problems(name)]
    if problems or "/" in name or is_quota_name(name) or name == "storage":
        return problems
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def quota_name_problems(name: str, path: str) -> list[Problem]:
    problems = resource_name_problems(name, path)
    if "/" in name or is_quota_name(name):
        return problems
    return [*problems, invalid(path, name, "must be a standard resource for quota")]


def container_name_problems(name: str, path: str) -> list[Problem]:
    problems = resource_name_problems(name, path)
    if "/" in name:
        return [*problems, invalid(path, name, "doesn't follow extended resource name standard")] if problems else []
    if name in OF_CONTAINERS or name.startswith(HUGE_PAGES):
        return problems
    return [*problems, invalid(path, name, "must be a standard resource for containers")]


def is_quota_name(name: str) -> bool:
    return name in _OF_QUOTAS or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))


def comes_whole(name: str) -> bool:
    """What is counted: objects, and the devices of a domain that is not Kubernetes' own."""
    return name in COUNTED or ("/" in name and "kubernetes.io/" not in name and not name.startswith("requests."))


def may_overcommit(name: str) -> bool:
    """Whether pods may be promised less of it than they may use."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(HUGE_PAGES)
