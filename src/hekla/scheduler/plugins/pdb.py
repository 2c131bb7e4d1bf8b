"""Disruption budgets hold for evictions by the scheduler too."""

from __future__ import annotations

from collections.abc import Sequence

from hekla.api.meta import Key
from hekla.scheduler.extension import Preemptable, Reclaimable, SchedulerPlugin
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Budget, Pod


class Pdb(SchedulerPlugin, Preemptable, Reclaimable):
    """Pods leave only while every budget that covers them allows one more to go."""

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        # Those made to leave earlier in this cycle have used up their part, though no status says so yet.
        left = {budget.key: budget.allowed for budget in self.session.snapshot.budgets}
        for pod in self.session.leaving.values():
            self._spend(left, pod)
        return [resident for resident in candidates if self._spend(left, resident.pod)]

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        return self.preemptable(contender, candidates)

    def _spend(self, left: dict[Key, int], pod: Pod) -> bool:
        """Take a pod from the budgets that cover it; whether all of them could afford it."""
        affordable = True
        for budget in self.session.snapshot.budgets:
            if _counts(budget, pod):
                left[budget.key] -= 1
                affordable = affordable and left[budget.key] >= 0
        return affordable


def _counts(budget: Budget, pod: Pod) -> bool:
    return budget.covers(pod) and pod.name not in budget.disrupted
