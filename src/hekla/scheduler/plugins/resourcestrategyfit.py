"""Nodes filled up in some resources and kept roomy in others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.resources import Flags, Floats
from hekla.scheduler.arrays.scores import Allotment
from hekla.scheduler.extension import Argument, NodeFilter, NodeScore, PairScore, SchedulerPlugin
from hekla.scheduler.fit import Refusal
from hekla.scheduler.session import PodClass, Session
from hekla.scheduler.strategies import (
    DeviceNeeds,
    Wishes,
    read_own_wishes,
    read_proportional,
    read_scarce,
    read_wishes,
)

_WEIGHT = "resourceStrategyFitWeight"
_DEVICE = 1000.0  # in the stored unit
_GIGABYTE = 1e9


class ResourceStrategyFit(SchedulerPlugin, NodeFilter, NodeScore):
    """Each resource has its own wish, a pod may have others; what is scarce is spared, and what it needs beside it."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        _WEIGHT: Argument(int, 10),
        "resources": Argument(dict, None, read_wishes),
        "sra": Argument(dict, None, read_scarce),
        "proportional": Argument(dict, None, read_proportional),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._columns = session.snapshot.columns
        self._allocatable = session.snapshot.nodes.allocatable
        self._wishes = read_wishes(arguments["resources"])
        self._scarce = read_scarce(arguments["sra"])
        self._beside = {
            self._columns.index[name]: needs
            for name, needs in read_proportional(arguments["proportional"]).items()
            if name in self._columns.index
        }
        self._standing: dict[int, Floats] = {}  # by shape
        if self._beside:
            # What is left beside the devices changes with every pod.
            session.fickle_queues.update(session.queues)

    def refusals(self, of: PodClass) -> Sequence[Refusal]:
        request = self.session.request(of.shape)
        if not self._beside or any(request[column] > 0 for column in self._beside):
            return ()
        found = []
        for column, needs in self._beside.items():
            text = f"proportional of resource {self._columns.names[column]} check failed"
            bared = self._bared(column, needs, request)
            if bared.any():
                found.append(Refusal(text, Reason.NO_NODE_MATCHES, bared))
        return found

    def pair_score(self, shape: int) -> PairScore | None:
        weight, wishes = self.arguments[_WEIGHT], self._wishes_of(shape)
        named = [(column, amount, wishes.of(self._columns.names[column])) for column, amount in self._asked(shape)]
        asked = [(column, amount, wish.weight, wish.fill) for column, amount, wish in named if wish is not None]
        if not weight or not asked:
            return None
        return Allotment(self._allocatable, self.session.used, asked, float(weight))

    def standing_score(self, of: PodClass) -> Floats | None:
        if self._scarce is None or not sum(self._scarce.weights.values()):
            return None
        if of.shape not in self._standing:
            self._standing[of.shape] = self._plainness(of.shape)
        return self._standing[of.shape]

    def _plainness(self, shape: int) -> Floats:
        """The fewer scarce resources a node has the better; nothing for nodes that lack what a pod asks for."""
        assert self._scarce is not None
        weights = self._scarce.weights
        there = np.zeros(len(self._allocatable))
        for name, weight in weights.items():
            if name in self._columns.index:
                there += weight * (self._allocatable[:, self._columns.index[name]] > 0)
        points = (1 - there / sum(weights.values())) * 100 * self._scarce.weight
        for column, _ in self._asked(shape):
            points[self._allocatable[:, column] <= 0] = 0.0
        return points

    def _bared(self, column: int, needs: DeviceNeeds, request: Floats) -> Flags:
        """Nodes on which idle devices would be left with less than they need beside them."""
        idle = self.session.idle
        devices = idle[:, column] / _DEVICE
        short = idle[:, 0] - request[0] < devices * needs.cores * 1000
        short |= idle[:, 1] - request[1] < devices * needs.gigabytes * _GIGABYTE
        flags: Flags = short & (self._allocatable[:, column] > 0)
        return flags

    def _wishes_of(self, shape: int) -> Wishes:
        own = read_own_wishes(*self.session.snapshot.shapes[shape].strategy)
        return self._wishes if own is None else own

    def _asked(self, shape: int) -> list[tuple[int, float]]:
        return [(column, amount) for column, amount in self.session.asked(shape) if column != self._columns.pods]
