"""Nodes that are being worked on take no pods; nodes that soon will be are used last.

kubectl label node n1 maintenance=now      # or: soon
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.extension import Argument, NodeFilter, NodeScore, SchedulerPlugin
from hekla.scheduler.fit import Refusal
from hekla.scheduler.session import PodClass, Session


class Maintenance(SchedulerPlugin, NodeFilter, NodeScore):
    """A plugin is built anew for every cycle. Points about nodes answer for all nodes at once, with arrays."""

    BY_CONSTRAINTS: ClassVar[bool] = True  # what it says does not depend on what a pod asks for
    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "maintenance.label": Argument(str, "maintenance"),
        "maintenance.weight": Argument(float, 1000.0),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        values = [node.labels.get(arguments["maintenance.label"]) for node in session.snapshot.nodes.rows]
        self._now = np.array([value == "now" for value in values], dtype=bool)
        self._soon = np.array([value == "soon" for value in values], dtype=bool)

    def refusals(self, of: PodClass) -> Sequence[Refusal]:
        return [Refusal("node(s) were in maintenance", Reason.NO_NODE_MATCHES, self._now)] if self._now.any() else []

    def has_preference(self, of: PodClass) -> bool:
        return bool(self._soon.any())

    def preference(self, of: PodClass, candidates: np.ndarray) -> np.ndarray:
        return np.where(self._soon[candidates], 0.0, self.arguments["maintenance.weight"])
