"""How much a queue may hold of each group of nodes, and how much it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hekla.scheduler.arrays.resources import TOLERANCE, Flags, Floats
from hekla.scheduler.session import GroupState, PodClass, Session
from hekla.scheduler.snapshot import IS_ALLOCATED


class GroupLimits:
    """Follows the pods of those queues that have limits; the others cost nothing."""

    def __init__(self, session: Session, group_of: Sequence[str]) -> None:
        self._session = session
        self._group_of = group_of  # by node line
        self._limits = {
            name: {group: self._row(most) for group, most in queue.node_group_limits.items()}
            for name, queue in session.queues.items()
            if queue.node_group_limits
        }
        self._held: dict[tuple[str, str], Floats] = {}
        if self._limits:
            self._count(session.groups)
            session.movers.append(self._moved)
            session.fickle_queues.update(self._limits)

    def exceeded(self, of: PodClass) -> Flags | None:
        """Nodes of groups that have no room left for one more pod of the class in its queue; None where there is."""
        limits = self._limits.get(of.queue)
        if not limits:
            return None
        full = [group for group, most in limits.items() if not self._has_room(of, group, most)]
        found: Flags = np.isin(np.array(self._group_of, dtype=object), full)
        return found

    def _row(self, most: Mapping[str, float]) -> Floats:
        """Without what no pod asks for and no node has."""
        columns = self._session.snapshot.columns
        return columns.row({name: amount for name, amount in most.items() if name in columns.index}, missing=np.inf)

    def _has_room(self, of: PodClass, group: str, most: Floats) -> bool:
        request = self._session.request(of.shape)
        held = self._held.get((of.queue, group), np.zeros(len(request)))
        return not np.any((request > 0) & (held + request - most >= TOLERANCE))

    def _count(self, states: Sequence[GroupState]) -> None:
        lines: Mapping[str, int] = self._session.lines
        for state in states:
            if state.queue.name in self._limits:
                placed = np.flatnonzero(IS_ALLOCATED[state.status]).tolist()
                there = [at for at in placed if state.group.pods[at].node in lines]
                self._moved(state, there, [lines[state.group.pods[at].node] for at in there], 1)

    def _moved(self, state: GroupState, positions: Sequence[int], lines: Sequence[int], sign: int) -> None:
        queue = state.queue.name
        for position, line in zip(positions, lines) if queue in self._limits else ():
            request = self._session.request(int(state.group.shape[position]))
            key = (queue, self._group_of[line])
            self._held[key] = self._held.get(key, np.zeros(len(request))) + request * sign
