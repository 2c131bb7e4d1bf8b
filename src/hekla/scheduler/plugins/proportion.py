"""Queues share the cluster by weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hekla.api.reasons import Reason
from hekla.api.scheduling import QueueState
from hekla.scheduler.accounts import Account, flat_ceilings, guarantees, how_many, members_by_queue, not_open
from hekla.scheduler.arrays.fairness import share, water_fill
from hekla.scheduler.arrays.resources import Floats, within
from hekla.scheduler.books import Book
from hekla.scheduler.extension import (
    GroupEnqueueable,
    Measured,
    QueueBooks,
    QueueMayReclaim,
    QueueOrder,
    QueueOverused,
    QueueRoom,
    Reclaimable,
    SchedulerPlugin,
    Vote,
)
from hekla.scheduler.figure import Figure
from hekla.scheduler.fit import Unfit
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Queue
from hekla.scheduler.session import GroupState, Session


class Proportion(
    SchedulerPlugin,
    QueueOrder,
    QueueOverused,
    QueueRoom,
    QueueMayReclaim,
    Reclaimable,
    GroupEnqueueable,
    QueueBooks,
    Measured,
):
    """A queue deserves its weight's part of the cluster, no more than it asks for; what one leaves, others may have."""

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._pods = session.snapshot.columns.pods
        self._accounts = self._open_accounts()
        self._share_out()
        session.listeners.append(self._moved)

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        account = self._accounts.get(queue.name)
        return (-queue.priority, share(account.allocated, account.deserved) if account else 0.0)

    def queue_overused(self, queue: Queue) -> bool:
        account = self._accounts[queue.name]
        # parity: over its share means in every resource, while room below is judged by what a pod asks for.
        return within(np.array(account.deserved), np.array(account.allocated))

    def queue_room(self, state: GroupState, shape: int, wanted: int) -> tuple[int, Unfit | None]:
        account = self._accounts[state.queue.name]
        if account.queue.state is not QueueState.OPEN:
            return 0, not_open(account.queue)
        room = wanted
        for column, amount in self.session.asked(shape):
            if column != self._pods:
                room = how_many(account.deserved[column], account.allocated[column], amount, room)
        return room, None if room == wanted else self._over_share(account, shape, room)

    def may_reclaim(self, state: GroupState, shape: int) -> bool:
        return self.queue_room(state, shape, 1)[0] == 1

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        """Of every queue as many as it takes to bring it down to what it deserves."""
        left: dict[str, Floats] = {}
        allowed = []
        for resident in candidates:
            account = self._accounts[resident.state.queue.name]
            held = left.setdefault(account.queue.name, np.array(account.allocated))
            if not within(held, np.array(account.deserved)):
                allowed.append(resident)
                held -= self.session.request(resident.shape)
        return allowed

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        account = self._accounts[state.queue.name]
        if account.queue.state is not QueueState.OPEN:
            return Vote.REJECT, not_open(account.queue)
        objection = account.objection_to_entering(
            self.session.snapshot.columns, state.group.minimum, self.session.total
        )
        return (Vote.PERMIT, None) if objection is None else (Vote.REJECT, objection)

    def group_enqueued(self, state: GroupState) -> None:
        account = self._accounts[state.queue.name]
        account.entered = account.entered + state.group.claim

    def queue_books(self, queue: Queue) -> list[Book]:
        account = self._accounts.get(queue.name)
        return [account.book(self.session.snapshot.columns)] if account is not None else []

    def figures(self) -> Iterator[Figure]:
        for name, account in self._accounts.items():
            yield from account.figures(self.session.snapshot.columns)
            yield Figure("queue_share", (name,), share(account.allocated, account.deserved))
            yield Figure("queue_weight", (name,), account.queue.weight)
            yield Figure("queue_overused", (name,), self.queue_overused(account.queue))

    def _moved(self, state: GroupState, shape: int, count: int) -> None:
        self._accounts[state.queue.name].move(self.session.asked(shape), count)

    def _open_accounts(self) -> dict[str, Account]:
        """An account for every queue that has groups; the others take no part."""
        session = self.session
        ceilings, guaranteed = flat_ceilings(session), guarantees(session)
        return {
            name: Account(session.queues[name], ceilings[name], guaranteed[name], groups)
            for name, groups in members_by_queue(session).items()
        }

    def _share_out(self) -> None:
        accounts = list(self._accounts.values())
        if not accounts:
            return
        deserved = water_fill(
            self.session.total,
            np.array([float(account.queue.weight) for account in accounts]),
            np.array([account.request for account in accounts]),
            np.array([account.ceiling for account in accounts]),
            np.array([account.guarantee for account in accounts]),
            self.session.snapshot.columns.counted,
        )
        for account, line in zip(accounts, deserved):
            account.deserved = line.tolist()

    def _over_share(self, account: Account, shape: int, fit: int) -> Unfit:
        columns, asked = self.session.snapshot.columns, self.session.asked(shape)
        tight = [
            column
            for column, amount in asked
            if column != self._pods and account.allocated[column] + amount * (fit + 1) > account.deserved[column]
        ]
        if all(account.deserved[column] >= self.session.total[column] for column in tight):
            # No other queue has a part in it: it is the cluster that has no more.
            sums = account.arithmetic(columns, asked, fit, account.deserved, "in the whole cluster")
            return Unfit(Reason.NOT_ENOUGH_RESOURCES, sums)
        sums = account.arithmetic(columns, asked, fit, account.deserved, "deserved")
        return Unfit(Reason.QUEUE_OVER_QUOTA, f"queue {account.queue.name} is at its share ({sums})")
