"""What one object uses of a ResourceQuota, by the names quotas count under.

Objects are told apart by their resource as errors name it (`pods`, `jobs.batch.volcano.sh`). Every object counts as
one of its kind; pods, Services and claims use more than that.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, parse_timestamp
from hekla.api.pod_resources import Amount, Amounts, quota_usage
from hekla.api.resource_names import COMPUTE, HUGE_PAGES

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
_COUNT = "count/"
# Counted by a name of their own, too.
_PLAIN = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas"})
_OF_PODS = COMPUTE | {PODS, "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
_OF_SERVICES = frozenset({SERVICES, "services.nodeports", "services.loadbalancers"})
_OF_CLAIMS = frozenset({CLAIMS, "requests.storage"})
_OF_CLASS = ".storageclass.storage.k8s.io/"
# parity: nobody has ever counted these.
_NEVER = frozenset({"events", "events.events.k8s.io"})
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_ONE = Amount(Decimal(1))


def counted_resource(name: str) -> str:
    """Whose objects a quota counts under this name; empty for a name nothing is counted under."""
    if name.startswith(_COUNT):
        resource = name.removeprefix(_COUNT)
        return "" if resource in _NEVER else resource
    if name in _PLAIN:
        return name
    if name in _OF_SERVICES:
        return SERVICES
    if name in _OF_CLAIMS or name.partition(_OF_CLASS)[2] in _OF_CLAIMS:
        return CLAIMS
    return PODS if _is_of_pods(name) else ""


def usage_of(resource: str, obj: Obj, now: datetime) -> Amounts:
    """By every name it might be counted under. Of most kinds nothing of the object is looked at."""
    usage = {_COUNT + resource: _ONE}
    if resource == PODS:
        if _runs(obj, now):
            usage |= quota_usage(obj["spec"])
    elif resource == SERVICES:
        usage |= _service_usage(obj.get("spec") or {})
    elif resource == CLAIMS:
        usage |= _claim_usage(obj)
    elif resource in _PLAIN:
        usage[resource] = _ONE
    return usage


def given_up_at(pod: Obj) -> datetime | None:
    """When a pod that is being deleted stops counting though it is still there; None for one that is not.

    It should be gone, and had its grace once more: its node is lost, and others must be able to take its place.
    """
    going, grace = (pod["metadata"].get(field) for field in ("deletionTimestamp", "deletionGracePeriodSeconds"))
    if not going or grace is None:
        return None
    return parse_timestamp(going) + timedelta(seconds=grace)


def unspecified(pod: Obj, names: frozenset[str]) -> str:
    """Which containers leave out what the quota counts under these names; in the words of the refusal."""
    whole = pod["spec"].get("resources") or {}
    # parity: of a pod that says anything for all of its containers together, no container has to say more.
    asked = names & COMPUTE if not (whole.get("requests") or whole.get("limits")) else frozenset()
    lacking: dict[str, set[str]] = {}
    for container in [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]:
        given = quota_usage({"containers": [container]})
        for name in asked - given.keys():
            lacking.setdefault(name, set()).add(str(container.get("name", "")))
    return "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))


def _runs(pod: Obj, now: datetime) -> bool:
    """Whether a pod uses what it asked for, or is going to."""
    if (pod.get("status") or {}).get("phase") in FINISHED_POD_PHASES:
        return False
    ends = given_up_at(pod)
    return ends is None or now <= ends


def _is_of_pods(name: str) -> bool:
    if name in _OF_PODS or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        return True
    # parity: of somebody's own resources only what is requested can be counted.
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def _service_usage(spec: Obj) -> Amounts:
    """By what it is meant to be: at its creation it has no ports of nodes yet."""
    type_, ports = spec.get("type"), spec.get("ports") or []
    balanced = type_ == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    elif not balanced and type_ != "NodePort":
        ports = []
    return {
        SERVICES: _ONE,
        "services.nodeports": _ONE.times(len(ports)),
        "services.loadbalancers": _ONE.times(int(balanced)),
    }


def _claim_usage(claim: Obj) -> Amounts:
    spec = claim.get("spec") or {}
    usage = {CLAIMS: _ONE}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if asked is not None:
        usage["requests.storage"] = _at_least(claim, Amount.of(asked))
    of_class = annotations_of(claim).get(_OLD_CLASS) or spec.get("storageClassName")
    if of_class:
        usage |= {f"{of_class}{_OF_CLASS}{name}": amount for name, amount in usage.items()}
    return usage


def _at_least(claim: Obj, asked: Amount) -> Amount:
    """A claim that was to grow and is asked to shrink again holds what it was promised."""
    promised = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    return max(asked, Amount.of(promised), key=lambda amount: amount.value) if promised is not None else asked
