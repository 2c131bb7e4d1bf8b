"""Where a group stands: what its queue holds against what it may hold, and who in the queue comes before it.

Worked out only when somebody asks, from the session as the cycle has left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hekla.api.meta import Key
from hekla.scheduler.arrays.resources import Floats
from hekla.scheduler.books import Book
from hekla.scheduler.rows import PodStatus, Queue, show_amount
from hekla.scheduler.session import READY_STATUSES, GroupState, Session
from hekla.scheduler.snapshot import Group, among, are
from hekla.scheduler.tiers import Tiers

_NAMED = 5
_HOLDS = among(READY_STATUSES)


class _Line(NamedTuple):
    """Who waits in a queue, in the order in which they are looked at, and the place of each by its key."""

    groups: tuple[Group, ...]
    places: Mapping[Key, int]


class Standing:
    def __init__(self, session: Session, tiers: Tiers, waiting: Iterable[GroupState]) -> None:
        """`waiting` are the groups that the cycle has left waiting."""
        self._session = session
        self._tiers = tiers
        self._waiting = tuple(waiting)
        self._outside = frozenset(state.group.row.key for state in self._waiting if state.refused)
        self._lines: dict[str, _Line] = {}

    def __call__(self, group: Group) -> dict[str, Any]:
        """JSON-able: `queues`, the group's own and those above it, and `ahead`, who waits there and goes first."""
        queue = self._session.queues.get(group.row.queue)
        if queue is None:
            return {}
        asked = self._asked(group)
        outside = group.row.key in self._outside
        books = (self._record(book, asked, outside=outside) for book in self._tiers.queue_books(queue))
        return {"queues": [record for record in books if record["resources"]], "ahead": self._ahead(group, queue)}

    def _record(self, book: Book, asked: Floats, *, outside: bool) -> dict[str, Any]:
        """The part of a book that is about what the group asks for."""
        index = self._session.snapshot.columns.index
        wanted = [(entry, float(asked[index[entry.resource]])) for entry in book.entries]
        return {
            "name": book.queue,
            "resources": [
                {**entry.record(outside=outside), "asked": show_amount(entry.resource, amount)}
                for entry, amount in wanted
                if amount
            ],
        }

    def _asked(self, group: Group) -> Floats:
        """What the pods ask for that have to start together and have no node, or the minimum of a group without any."""
        lacking = max(1, group.row.min_member - int(np.count_nonzero(_HOLDS[group.status])))
        pending = np.flatnonzero(are(group.status, PodStatus.PENDING))[:lacking]
        if not len(pending):
            return group.minimum
        total: Floats = self._session.snapshot.requests[group.shape[pending]].sum(axis=0)
        return total

    def _ahead(self, group: Group, queue: Queue) -> dict[str, Any]:
        line = self._line(queue.name)
        at = line.places.get(group.row.key, 0)
        return {
            "count": at,
            "first": [
                {"namespace": other.row.key.namespace, "name": other.row.key.name, "priority": other.priority}
                for other in line.groups[: min(at, _NAMED)]
            ],
        }

    def _line(self, queue: str) -> _Line:
        if queue not in self._lines:
            waiting = sorted((state for state in self._waiting if state.queue.name == queue), key=self._tiers.group_key)
            groups = tuple(state.group for state in waiting)
            self._lines[queue] = _Line(groups, {group.row.key: place for place, group in enumerate(groups)})
        return self._lines[queue]
