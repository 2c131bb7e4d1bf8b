"""Pods that have only just started are left alone."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.scheduler.extension import Preemptable, Reclaimable, SchedulerPlugin
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import PodStatus


class Cdp(SchedulerPlugin, Preemptable, Reclaimable):
    """No pod that runs leaves for others within the time it asks for after it got its node (cool-down protection)."""

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return [resident for resident in candidates if not self._is_spared(resident)]

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return self.preemptable(contender, candidates)

    def _is_spared(self, resident: Resident) -> bool:
        until = resident.pod.spared_until
        if resident.status is not PodStatus.RUNNING or until <= self.session.snapshot.now:
            return False
        self.session.look_again_at(until)
        return True
