"""Pods a cluster cannot do without."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.scheduler.extension import Preemptable, Reclaimable, SchedulerPlugin
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Pod

_CRITICAL = ("system-cluster-critical", "system-node-critical")
_SYSTEM_NAMESPACE = "kube-system"


class Conformance(SchedulerPlugin, Preemptable, Reclaimable):
    """System pods never leave for others."""

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return [resident for resident in candidates if not _is_critical(resident.pod)]

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return self.preemptable(contender, candidates)


def _is_critical(pod: Pod) -> bool:
    return pod.priority_class in _CRITICAL or pod.namespace == _SYSTEM_NAMESPACE
