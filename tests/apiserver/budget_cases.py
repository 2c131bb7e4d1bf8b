"""What disruption budgets allow: cases that the local cluster and a real one are both held to.

Pods are made, some are ready, and are evicted one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, POD, POD_DISRUPTION_BUDGET, Kind, Obj
from hekla.client.rest import Client
from hekla.errors import ApiError
from tests.apiserver.quota_cases import pod

GADGET = Kind("limits.example.org", "v1", "Gadget", "gadgets", True, (), ("scale",))
GIZMO = Kind("limits.example.org", "v1", "Gizmo", "gizmos")
LABELS = {"app": "x"}
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
LATER = "The disruption budget b is still being processed by the server."


@dataclass(frozen=True)
class Case:
    """`owner` is whose pods they are. `told` says of each eviction what speaks against it, `status` is before them."""

    name: str
    spec: Obj
    pods: dict[str, bool]
    status: dict[str, int]
    reason: str
    told: dict[str, str]
    message: str = ""
    owner: Kind | None = None
    replicas: int = 0
    left: dict[str, int] = field(default_factory=dict)


def _counts(expected: int, desired: int, healthy: int, allowed: int) -> dict[str, int]:
    return {
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
    }


def _short(needs: int, has: int) -> str:
    return f"The disruption budget b needs {needs} healthy pods and has {has} currently"


ENOUGH, SHORT = "SufficientPods", "InsufficientPods"
CASES = [
    Case(
        "so-many-must-be-there",
        {"minAvailable": 2},
        {"p0": True, "p1": True, "p2": True},
        _counts(3, 2, 3, 1),
        ENOUGH,
        {"p0": "", "p1": _short(2, 2), "p2": _short(2, 2)},
        left=_counts(2, 2, 2, 0),
    ),
    Case(
        "those-that-are-not-well-may-go-when-the-others-are-enough",
        {"minAvailable": 1},
        {"p0": True, "p1": False},
        _counts(2, 1, 1, 0),
        SHORT,
        {"p0": _short(1, 1), "p1": ""},
        left=_counts(1, 1, 1, 0),
    ),
    Case(
        "those-that-are-not-well-may-not-go-when-the-others-are-not-enough",
        {"minAvailable": 2},
        {"p0": True, "p1": False},
        _counts(2, 2, 1, 0),
        SHORT,
        {"p1": _short(2, 1)},
    ),
    Case(
        "those-that-are-not-well-may-always-go",
        {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        {"p0": True, "p1": False},
        _counts(2, 2, 1, 0),
        SHORT,
        {"p0": _short(2, 1), "p1": ""},
    ),
    Case("nobody-there", {"minAvailable": 0}, {}, _counts(0, 0, 0, 0), SHORT, {}),
    Case(
        "a-part-of-what-is-wanted",
        {"minAvailable": "50%"},
        {"p0": True, "p1": True},
        _counts(3, 2, 2, 0),
        SHORT,
        {"p0": _short(2, 2)},
        owner=GADGET,
        replicas=3,
    ),
    Case(
        "so-many-may-be-away",
        {"maxUnavailable": 1},
        {"p0": True, "p1": True, "p2": True},
        _counts(3, 2, 3, 1),
        ENOUGH,
        {"p0": "", "p1": _short(2, 2)},
        owner=GADGET,
        replicas=3,
        left=_counts(3, 2, 2, 0),
    ),
    Case(
        "a-part-may-be-away",
        {"maxUnavailable": "34%"},
        {"p0": True, "p1": True, "p2": True},
        _counts(3, 1, 3, 2),
        ENOUGH,
        {"p0": "", "p1": "", "p2": _short(1, 1)},
        owner=GADGET,
        replicas=3,
    ),
    Case(
        "pods-of-nobody-are-not-expected",
        {"maxUnavailable": 1},
        {"p0": True, "p1": True},
        _counts(0, 0, 2, 0),
        SHORT,
        {"p0": "The disruption budget b does not allow evicting pods currently"},
    ),
    Case(
        "pods-of-who-cannot-be-scaled",
        {"maxUnavailable": 1},
        {"p0": True, "p1": True},
        _counts(0, 0, 0, 0),
        "SyncFailed",
        {"p0": LATER},
        message="gizmos.limits.example.org does not implement the scale subresource",
        owner=GIZMO,
    ),
    Case(
        "a-number-needs-no-scale",
        {"minAvailable": 1},
        {"p0": True, "p1": True},
        _counts(2, 1, 2, 1),
        ENOUGH,
        {"p0": "", "p1": _short(1, 1)},
        owner=GIZMO,
    ),
]


async def define_owners(client: Client) -> None:
    for kind in (GADGET, GIZMO):
        version: Obj = {"name": "v1", "served": True, "storage": True}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        if kind is GADGET:
            paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
            version["subresources"] = {"scale": paths}
        names = {"plural": kind.plural, "kind": kind.kind}
        spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
        definition = {"metadata": {"name": kind.resource}, "spec": spec}
        if await client.find(CUSTOM_RESOURCE_DEFINITION, kind.resource) is None:
            await client.create(CUSTOM_RESOURCE_DEFINITION, typed(CUSTOM_RESOURCE_DEFINITION, definition))


async def set_up(client: Client, case: Case, namespace: str) -> None:
    """The pods first, then their budget."""
    owners = []
    if case.owner is not None:
        wish = {"metadata": {"name": "o", "namespace": namespace}, "spec": {"replicas": case.replicas}}
        made = await client.create(case.owner, typed(case.owner, wish))
        reference = {"apiVersion": case.owner.api_version, "kind": case.owner.kind, "name": "o", "controller": True}
        owners = [{**reference, "uid": made["metadata"]["uid"]}]
    for name, ready in case.pods.items():
        metadata = {"name": name, "namespace": namespace, "labels": LABELS, "ownerReferences": owners}
        await client.create(POD, {**pod(name), "metadata": metadata})
        condition = {"type": "Ready", "status": str(ready)}
        status = {"phase": "Running", "conditions": [condition]}
        await client.patch(POD, name, {"status": status}, namespace, subresource="status")
    await client.create(POD_DISRUPTION_BUDGET, budget(case.spec, namespace))


def budget(spec: Obj, namespace: str = "default", name: str = "b") -> Obj:
    wish = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    return typed(POD_DISRUPTION_BUDGET, wish)


def typed(kind: Kind, obj: Obj) -> Obj:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


async def status_of(client: Client, namespace: str) -> Any:
    """Its numbers, and its condition's reason and message."""
    found = (await client.get(POD_DISRUPTION_BUDGET, "b", namespace)).get("status") or {}
    numbers = {name: value for name, value in found.items() if isinstance(value, int) and name != "observedGeneration"}
    (condition,) = found.get("conditions") or [{}]
    return numbers, condition.get("reason"), condition.get("message")


async def evict(client: Client, name: str, namespace: str) -> str:
    """What is said against it."""
    try:
        await send_eviction(client, name, namespace)
    except ApiError as error:
        refused = error
    else:
        return ""
    assert (refused.code, str(refused)) == (429, REFUSED)
    (cause,) = (refused.details or {})["causes"]
    assert cause["reason"] == "DisruptionBudget"
    return str(cause["message"])


async def send_eviction(client: Client, name: str, namespace: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    headers = {"Content-Type": "application/json"}
    path = POD.path(namespace, name, "eviction")
    await client.raw("POST", path, body=msgspec.json.encode(body), headers=headers)
