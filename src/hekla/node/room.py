"""What the node has against what its pods ask for: one that came by another way than our scheduler may find it full.

A pod holds its room from the moment it is let in until its containers are over or its object is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import Obj
from hekla.api.meta import uid_of
from hekla.api.pod_resources import pod_requests
from hekla.api.quantity import parse
from hekla.node.runtime import Waiting

_MILLI = 1000


class Room:
    def __init__(self, allocatable: Mapping[str, str]) -> None:
        self._all = {name: parse(amount) for name, amount in allocatable.items()}
        self._held: dict[str, dict[str, Decimal]] = {}
        self._used: Counter[str] = Counter()

    def take(self, pod: Obj) -> Waiting | None:
        """Let a pod in; or why there is no room for it, in a kubelet's words. One that is in already stays in."""
        if uid_of(pod) in self._held:
            return None
        needs = self._needs(pod)
        for name, amount in needs.items():
            if self._used[name] + amount > self._all[name]:
                figures = (amount, Decimal(self._used[name]), self._all[name])
                requested, used, capacity = (_shown(name, figure) for figure in figures)
                return Waiting(
                    f"OutOf{name}",
                    f"Pod was rejected: Node didn't have enough resource: {name}, "
                    f"requested: {requested}, used: {used}, capacity: {capacity}",
                )
        self.hold(pod)
        return None

    def hold(self, pod: Obj) -> None:
        """Count a pod that is here, whether there is room or not."""
        if uid_of(pod) not in self._held:
            self._held[uid_of(pod)] = needs = self._needs(pod)
            self._used.update(needs)

    def give_back(self, uid: str) -> None:
        self._used.subtract(self._held.pop(uid, {}))

    def _needs(self, pod: Obj) -> dict[str, Decimal]:
        """Of what this node has: what others count for it, and it does not know, is theirs to watch over."""
        asked = {name: amount.value for name, amount in pod_requests(pod["spec"]).items() if amount.value > 0}
        return {name: amount for name, amount in {**asked, "pods": Decimal(1)}.items() if name in self._all}


def is_let_in(pod: Obj) -> bool:
    """Whether an agent before us has let the pod in, and its containers may be at work."""
    status = pod.get("status") or {}
    return bool(status.get("startTime")) and status.get("phase") not in FINISHED_POD_PHASES


def _shown(name: str, amount: Decimal) -> str:
    return str(int(amount * _MILLI if name == "cpu" else amount))
