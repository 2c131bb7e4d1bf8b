"""Queues as a tree: each has a parent, the root where it names none.

Queues whose way to the root is broken, or that have queues below them, cannot take groups; the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hekla.api.scheduling import ROOT_QUEUE
from hekla.scheduler.accounts import capability, guarantees
from hekla.scheduler.arrays.resources import Floats
from hekla.scheduler.rows import Queue
from hekla.scheduler.session import Session


class QueueTree:
    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._parents = {
            name: "" if name == ROOT_QUEUE else queue.parent or ROOT_QUEUE for name, queue in queues.items()
        }
        self._children: dict[str, list[str]] = {}
        for name, parent in self._parents.items():
            self._children.setdefault(parent, []).append(name)
        self._ways = {name: self._walk_up(name) for name in queues}

    def way_up(self, name: str) -> list[str]:
        """The queue and its ancestors; the root, where it can be reached, is the last."""
        return self._ways[name]

    def way_down(self, name: str) -> list[str]:
        """From below the root down to the queue."""
        return [at for at in reversed(self._ways[name]) if at != ROOT_QUEUE]

    def all_below(self, name: str) -> Iterator[str]:
        """The queue itself and everything whose way to the root goes through it."""
        return (at for at, way in self._ways.items() if name in way)

    def children(self, name: str) -> list[str]:
        return self._children.get(name, [])

    def is_leaf(self, name: str) -> bool:
        return not self.children(name)

    def is_root(self, name: str) -> bool:
        return name == ROOT_QUEUE

    def common_depth(self, one: str, other: str) -> int:
        """How many queues, counted from the root, two queues have above them in common."""
        ways = zip(reversed(self._ways[one]), reversed(self._ways[other]))
        depth = 0
        for mine, theirs in ways:
            if mine != theirs:
                break
            depth += 1
        return depth

    def trouble(self, name: str) -> str:
        """Why the queue cannot take groups; empty where it can."""
        if self.is_lost(name):
            above = self._parents[self._ways[name][-1]]
            matter = "a ring" if above in self._parents else f"{above} does not exist"
            return f"queue {name} has no way up to the root queue: {' < '.join([*self._ways[name], above])} ({matter})"
        if not self.is_leaf(name):
            return f"queue {name} has queues below it; only queues at the end of the tree take groups"
        return ""

    def is_lost(self, name: str) -> bool:
        """Whether its way up ends in a ring, or at a queue that does not exist."""
        return self._ways[name][-1] != ROOT_QUEUE

    def ceilings(self, session: Session) -> dict[str, Floats]:
        """What each queue may hold: its limit or its parent's, less what is guaranteed to its siblings."""
        own, limits, ceilings = guarantees(session), dict[str, Floats](), dict[str, Floats]()
        known = session.total > 0
        known[:2] = True
        # parity: at the root it is not the size of the cluster that limits, only what the root queue declares.
        endless = np.where(known, np.inf, 0.0)
        for name in sorted(self._ways, key=lambda at: (len(self._ways[at]), at)):
            parent = self._parents[name]
            declared = capability(session, session.queues[name])
            if parent not in ceilings:
                limits[name] = ceilings[name] = np.minimum(declared, endless)
                continue
            limits[name] = np.where(np.isinf(declared), limits[parent], declared)
            promised = sum((own[child] for child in self._children[parent]), np.zeros(len(known)))
            share = np.maximum(ceilings[parent] - promised, 0.0) + own[name]
            ceilings[name] = np.minimum(share, limits[name])
        return ceilings

    def _walk_up(self, name: str) -> list[str]:
        way: list[str] = []
        while name in self._parents and name not in way:
            way.append(name)
            name = self._parents[name]
        return way
