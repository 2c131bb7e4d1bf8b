"""Pods that have only just started are left alone."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.scheduler.extension import Preemptable, Reclaimable, SchedulerPlugin
from hekla.scheduler.residents import Contender, Resident


class Cdp(SchedulerPlugin, Preemptable, Reclaimable):
    """No pod leaves for others within the time after its start that it asks for (cool-down protection)."""

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return [resident for resident in candidates if not self._is_spared(resident)]

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return self.preemptable(contender, candidates)

    def _is_spared(self, resident: Resident) -> bool:
        until = resident.pod.spared_until
        if until <= self.session.snapshot.now:
            return False
        self.session.look_again_at(until)
        return True
