"""What a queue holds, asks for and may have: what the plugins that share a cluster between queues have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.resources import CPU, MEMORY, PODS, Columns, Floats, exceeded
from hekla.scheduler.books import Book, Entry
from hekla.scheduler.figure import Figure
from hekla.scheduler.fit import Unfit
from hekla.scheduler.inqueue import lacking, nowhere
from hekla.scheduler.rows import Queue, show_amount
from hekla.scheduler.session import Session
from hekla.scheduler.snapshot import Group, Holdings

Member = Group | Holdings
_Asked = Sequence[tuple[int, float]]


class Account:
    """One queue's books. `ceiling` is what it may hold at most, infinite where nothing limits it."""

    def __init__(self, queue: Queue, ceiling: Floats, guarantee: Floats, groups: Sequence[Member]) -> None:
        self.queue = queue
        self.ceiling = ceiling
        self.guarantee = guarantee
        together: Floats = sum((group.holdings for group in groups), Holdings.none(len(ceiling)).holdings)
        allocated, pending, self.entered, self.elastic, _ = together
        self.request: Floats = allocated + pending
        # Plain lists: they change, and are asked for, with every placement.
        self.allocated: list[float] = allocated.tolist()
        self.deserved = [0.0] * len(allocated)
        self.reserved = [0.0] * len(allocated)  # for pods that were let in and have no node yet

    def move(self, asked: _Asked, count: int) -> None:
        """`count` pods came, or went when it is negative."""
        for column, amount in asked:
            self.allocated[column] += amount * count

    def reserve(self, asked: _Asked, count: int) -> None:
        for column, amount in asked:
            self.reserved[column] += amount * count

    def objection_to_entering(self, columns: Columns, minimum: Floats, cluster: Floats) -> Unfit | None:
        """What speaks against a group of this minimum entering, with what is inside already."""
        total = minimum + self.allocated + self.entered - self.elastic
        over = exceeded(total, self.ceiling, minimum, columns.counted)
        if not over.any():
            return None
        lines = np.flatnonzero(over)
        named = ", ".join(f"insufficient {columns.names[column]}" for column in lines)
        left = np.maximum(self.ceiling - (total - minimum), 0.0)
        message = f"queue resource quota insufficient: {named}"
        absent = nowhere(columns.names, lines, minimum, cluster)
        if absent:
            return Unfit(Reason.NOT_ENOUGH_RESOURCES, message, absent)
        # Where nothing is set, what a queue may hold is what there is.
        beyond = np.flatnonzero(over & (minimum > cluster) & (self.ceiling >= cluster))
        if len(beyond):
            sums = lacking(columns.names, beyond, minimum, left, cluster, "in the whole cluster")
            return Unfit(Reason.NOT_ENOUGH_RESOURCES, message, sums)
        sums = lacking(columns.names, lines, minimum, left, self.ceiling, "allowed in all")
        return Unfit(Reason.QUEUE_OVER_QUOTA, message, f"queue {self.queue.name}: {sums}")

    def book(self, columns: Columns) -> Book:
        entered, elastic, ceiling = self.entered.tolist(), self.elastic.tolist(), self.ceiling.tolist()
        amounts = zip(columns.names, self.allocated, entered, elastic, self.deserved, ceiling)
        return Book(self.queue.name, tuple(Entry(*one) for one in amounts if one[0] != PODS))

    def figures(self, columns: Columns) -> Iterator[Figure]:
        columns_of = partial(queue_figures, columns, self.queue.name)
        yield from columns_of("allocated", self.allocated)
        yield from columns_of("request", self.request.tolist())
        yield from columns_of("deserved", self.deserved)
        yield from columns_of("inqueue", self.entered.tolist())

    def arithmetic(self, columns: Columns, asked: _Asked, fit: int, limit: Sequence[float], word: str) -> str:
        """`cpu: 2 asked, 3 in use, 4 <word>` for what the next pod asks beyond the limit, once `fit` have got it."""
        told = []
        for column, amount in asked:
            taken = self.allocated[column] + self.reserved[column] + amount * fit
            if column != columns.pods and taken + amount > limit[column]:
                name = columns.names[column]
                asks, used, most = (show_amount(name, each) for each in (amount, taken, limit[column]))
                told.append(f"{name}: {asks} asked, {used} in use, {most} {word}")
        return "; ".join(told)


def queue_figures(columns: Columns, name: str, word: str, amounts: Sequence[float]) -> Iterator[Figure]:
    """A queue's amounts under upstream's three names."""
    for column, amount in zip(columns.names, amounts):
        if column == CPU:
            yield Figure(f"queue_{word}_milli_cpu", (name,), float(amount))
        elif column == MEMORY:
            yield Figure(f"queue_{word}_memory_bytes", (name,), float(amount))
        elif amount:
            yield Figure(f"queue_{word}_scalar_resources", (name, column), float(amount))


def members_by_queue(session: Session) -> dict[str, list[Member]]:
    """The groups of each queue; those at rest added up."""
    members: dict[str, list[Member]] = {
        name: [held] for name, held in session.snapshot.held.items() if name in session.queues
    }
    for state in session.active:
        members.setdefault(state.queue.name, []).append(state.group)
    return members


def guarantees(session: Session) -> dict[str, Floats]:
    columns = session.snapshot.columns
    return {name: columns.row(queue.guarantee) for name, queue in session.queues.items()}


def flat_ceilings(session: Session) -> dict[str, Floats]:
    """For each queue its capability, and never what is guaranteed to others."""
    own = guarantees(session)
    unguaranteed = np.maximum(session.total - sum(own.values(), np.zeros(len(session.total))), 0.0)
    return {
        name: np.minimum(unguaranteed + own[name], capability(session, queue)) for name, queue in session.queues.items()
    }


def capability(session: Session, queue: Queue) -> Floats:
    """The declared limit; a CPU or memory limit of zero is none."""
    limits = {name: amount for name, amount in queue.capability.items() if amount > 0 or name not in (CPU, MEMORY)}
    return session.snapshot.columns.row(limits, missing=np.inf)


def how_many(limit: float, allocated: float, amount: float, most: int) -> int:
    """How many times `amount` fits, at most `most`. Exact: a division off in the last bit does not decide."""
    if allocated + amount * most <= limit:
        return most
    room = max(0, min(most, int((limit - allocated) // amount) + 1))
    while room and allocated + amount * room > limit:
        room -= 1
    return room


def not_open(queue: Queue) -> Unfit:
    text = f"queue {queue.name} is {queue.state}"
    return Unfit(Reason.QUEUE_NOT_OPEN, text, f"{text}: nothing new starts in it until it is opened", told=False)
