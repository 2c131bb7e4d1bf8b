"""Fill nodes up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hekla.scheduler.arrays.resources import CPU, MEMORY
from hekla.scheduler.arrays.scores import Fullness
from hekla.scheduler.extension import Argument, NodeScore, PairScore, SchedulerPlugin
from hekla.scheduler.session import Session


class Binpack(SchedulerPlugin, NodeScore):
    """The fuller a node would be in the resources a pod asks for, the better."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "binpack.weight": Argument(float, 1.0),
        "binpack.cpu": Argument(float, 1.0),
        "binpack.memory": Argument(float, 1.0),
        "binpack.resources": Argument(str, ""),
    }
    ARGUMENT_PREFIX: ClassVar[str] = "binpack.resources."

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._weight = float(arguments["binpack.weight"])
        self._weights = {CPU: arguments["binpack.cpu"], MEMORY: arguments["binpack.memory"]}
        for name in filter(None, (part.strip() for part in arguments["binpack.resources"].split(","))):
            self._weights[name] = arguments.get(f"{self.ARGUMENT_PREFIX}{name}", 1.0)
        # parity: a negative weight of a resource counts as 1; the weight of the whole is taken as it is.
        self._weights = {name: weight if weight >= 0 else 1.0 for name, weight in self._weights.items()}

    def pair_score(self, shape: int) -> PairScore | None:
        session, request = self.session, self.session.request(shape)
        columns = session.snapshot.columns
        asked = [
            (columns.index[name], float(request[columns.index[name]]), weight)
            for name, weight in self._weights.items()
            if name in columns.index and request[columns.index[name]] > 0
        ]
        if not self._weight or not asked:
            return None
        return Fullness(session.snapshot.nodes.allocatable, session.used, asked, self._weight)
