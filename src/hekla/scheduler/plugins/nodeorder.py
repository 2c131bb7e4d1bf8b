"""kube-scheduler's own taste in nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.arrays.scores import Spread, SpreadOfClass, normalise
from hekla.scheduler.extension import Argument, NodeScore, PairScore, SchedulerPlugin
from hekla.scheduler.plugins.predicates import matches, tolerates
from hekla.scheduler.rows import Constraints
from hekla.scheduler.session import Session

_GPU = "nvidia.com/gpu"


class NodeOrder(SchedulerPlugin, NodeScore):
    """Spread by free room and balance; then preferred affinity and taints one would rather avoid."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "leastrequested.weight": Argument(int, 1),
        "mostrequested.weight": Argument(int, 0),
        "balancedresource.weight": Argument(int, 1),
        "nodeaffinity.weight": Argument(int, 2),
        "podaffinity.weight": Argument(int, 2),
        "tainttoleration.weight": Argument(int, 3),
        "imagelocality.weight": Argument(int, 1),
        "podtopologyspread.weight": Argument(int, 2),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._nodes = session.snapshot.nodes.rows
        self._avoided = [
            line for line, node in enumerate(self._nodes) if any(t.effect == "PreferNoSchedule" for t in node.taints)
        ]
        columns = session.snapshot.columns
        self._balanced = [0, 1, *([columns.index[_GPU]] if _GPU in columns.index else [])]
        self._spread = Spread(
            session.snapshot.nodes.allocatable,
            session.assumed,
            session.used,
            session.pipelined,
            arguments["leastrequested.weight"],
            arguments["mostrequested.weight"],
            arguments["balancedresource.weight"],
        )

    def pair_score(self, shape: int) -> PairScore | None:
        if not (self._spread.least or self._spread.most or self._spread.balance):
            return None
        kind, request = self.session.snapshot.shapes[shape], self.session.request(shape)
        # A GPU counts for the balance of a node only with pods that ask for one.
        balanced = [(column, float(request[column])) for column in self._balanced if column < 2 or request[column] > 0]
        return SpreadOfClass(self._spread, (kind.assumed_cpu, kind.assumed_memory), balanced)

    def preference(self, constraints: Constraints, candidates: Ints) -> Floats | None:
        total: Floats | None = None
        for part in (self._affinity(constraints, candidates), self._taints(constraints, candidates)):
            if part is not None:
                total = part if total is None else total + part
        return total

    def _affinity(self, constraints: Constraints, candidates: Ints) -> Floats | None:
        weight = self.arguments["nodeaffinity.weight"]
        if not weight or not constraints.preferred:
            return None
        raw = np.array(
            [
                float(sum(points for points, term in constraints.preferred if matches(term, self._nodes[line])))
                for line in candidates.tolist()
            ]
        )
        return normalise(raw, weight, reverse=False)

    def _taints(self, constraints: Constraints, candidates: Ints) -> Floats | None:
        weight = self.arguments["tainttoleration.weight"]
        if not weight or not self._avoided:
            return None
        # Only tolerations for this effect, or for any, speak here.
        tolerations = [item for item in constraints.tolerations if item.effect in ("", "PreferNoSchedule")]
        raw = np.zeros(len(self._nodes))
        for line in self._avoided:
            taints = [taint for taint in self._nodes[line].taints if taint.effect == "PreferNoSchedule"]
            raw[line] = sum(1.0 for taint in taints if not tolerates(tolerations, taint))
        return normalise(raw[candidates], weight, reverse=True)
