"""What the status of a PodDisruptionBudget says: how many of its pods are well, and how many may be made to leave.

Two write it: who counts the pods, and who evicts one and takes note of it until that is seen in the pods. Here is what
each of them makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hekla.api.kinds import Obj
from hekla.api.meta import Key, is_deleting, key_of, labels_of, name_of, parse_timestamp, timestamp
from hekla.api.selector import Selector, label_selector_from

SYNC_FAILED = "SyncFailed"
_ALLOWED = "DisruptionAllowed"
# So long after its eviction a pod that is still there, and not even told to go, is taken to stay.
_PATIENCE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Budget:
    """`least` are to be available, or `most` may be unavailable: a number, or a percentage of what is expected."""

    key: Key
    generation: int
    selector: Selector | None
    least: int | str | None
    most: int | str | None
    always_evicts_unhealthy: bool
    status: Mapping[str, object]

    def covers(self, pod: Obj) -> bool:
        return self.selector is not None and self.selector.matches(labels_of(pod))

    @property
    def needs_scale(self) -> bool:
        """Whether what it asks for depends on how many pods there ought to be."""
        return self.most is not None or isinstance(self.least, str)

    def desired(self, expected: int) -> int:
        if self.most is not None:
            return max(expected - _share(self.most, expected), 0)
        return _share(self.least, expected) if self.least is not None else 0

    def number(self, field: str) -> int:
        """Of its status; 0 where that is silent."""
        value = self.status.get(field)
        return value if isinstance(value, int) else 0

    @property
    def disrupted(self) -> dict[str, str]:
        """Pods that were evicted, by name, and when."""
        found = self.status.get("disruptedPods")
        return dict(found) if isinstance(found, dict) else {}

    @property
    def condition(self) -> Obj:
        conditions = self.status.get("conditions")
        for each in conditions if isinstance(conditions, list) else ():
            if each.get("type") == _ALLOWED:
                return dict(each)
        return {}


def read_budget(budget: Obj) -> Budget:
    spec = budget.get("spec") or {}
    return Budget(
        key_of(budget),
        int(budget["metadata"].get("generation") or 0),
        label_selector_from(spec.get("selector")),
        spec.get("minAvailable"),
        spec.get("maxUnavailable"),
        spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        budget.get("status") or {},
    )


def is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def counted(budget: Budget, pods: Sequence[Obj], expected: int, now: datetime) -> tuple[Obj, datetime | None]:
    """The status, from all pods that the budget covers; and when to look again, if nothing happens before."""
    disrupted = _still_to_go(budget, pods, now)
    well = [pod for pod in pods if is_ready(pod) and not is_deleting(pod) and name_of(pod) not in disrupted]
    desired = budget.desired(expected)
    status: Obj = {
        "observedGeneration": budget.generation,
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": len(well),
        # With no pods there is nothing to allow: the first that come must not find an allowance nobody counted.
        "disruptionsAllowed": max(len(well) - desired, 0) if expected > 0 else 0,
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    ends = [parse_timestamp(moment) + _PATIENCE for moment in disrupted.values()]
    return _with_condition(budget, status, now), min(ends, default=None)


def uncounted(budget: Budget, why: str, now: datetime) -> Obj:
    """The status when it cannot be told how many pods there ought to be: nothing is allowed, and the rest stays."""
    condition = {"status": "False", "reason": SYNC_FAILED, "message": why}
    return _put_condition(budget, {**budget.status, "disruptionsAllowed": 0}, condition, now)


def spent(budget: Budget, pod: str, now: datetime) -> Obj:
    """The status when one more pod has been made to leave."""
    left = budget.number("disruptionsAllowed") - 1
    disrupted = {**budget.disrupted, pod: timestamp(now)}
    status = {**budget.status, "disruptionsAllowed": left, "disruptedPods": disrupted}
    return _with_condition(budget, status, now) if left == 0 else status


def _still_to_go(budget: Budget, pods: Sequence[Obj], now: datetime) -> dict[str, str]:
    """Those evicted pods that nothing but this note tells from others."""
    found: dict[str, str] = {}
    for pod in pods:
        moment = budget.disrupted.get(name_of(pod))
        if moment is None or is_deleting(pod) or parse_timestamp(moment) + _PATIENCE < now:
            continue
        # One that was made later only has the name of the one that has gone.
        if parse_timestamp(pod["metadata"]["creationTimestamp"]) <= parse_timestamp(moment):
            found[name_of(pod)] = moment
    return found


def _with_condition(budget: Budget, status: Obj, now: datetime) -> Obj:
    enough = status["disruptionsAllowed"] > 0
    reason = "SufficientPods" if enough else "InsufficientPods"
    return _put_condition(budget, status, {"status": str(enough), "reason": reason, "message": ""}, now)


def _put_condition(budget: Budget, status: Obj, condition: Obj, now: datetime) -> Obj:
    before = budget.condition
    same = before.get("status") == condition["status"]
    full = {
        "type": _ALLOWED,
        "observedGeneration": int(status.get("observedGeneration") or 0),
        "lastTransitionTime": before["lastTransitionTime"] if same else timestamp(now),
        **condition,
    }
    if not full["observedGeneration"]:
        del full["observedGeneration"]
    return {**status, "conditions": [full]}


def _share(part: int | str, of: int) -> int:
    """A number, or a percentage: of a broken pod, all of it is meant."""
    if isinstance(part, int):
        return part
    return -(-int(part.removesuffix("%")) * of // 100)
