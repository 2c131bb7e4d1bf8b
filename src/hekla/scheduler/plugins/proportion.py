"""Queues share the cluster by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hekla.api.scheduling import QueueState
from hekla.scheduler.arrays.fairness import share, water_fill
from hekla.scheduler.arrays.resources import CPU, MEMORY, Floats, exceeded, within
from hekla.scheduler.extension import (
    GroupEnqueueable,
    QueueMayReclaim,
    QueueOrder,
    QueueOverused,
    QueueRoom,
    Reclaimable,
    SchedulerPlugin,
    Vote,
)
from hekla.scheduler.fit import Reason, Unfit
from hekla.scheduler.inqueue import asked_and_left
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Queue, show_amount
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.snapshot import Group


class _Account:
    """What one queue has, asks for and may have."""

    def __init__(self, queue: Queue, ceiling: Floats, guarantee: Floats, groups: Sequence[Group]) -> None:
        self.queue = queue
        self.ceiling = ceiling
        self.guarantee = guarantee
        allocated: Floats = np.sum([group.allocated for group in groups], axis=0)
        self.request: Floats = allocated + np.sum([group.pending for group in groups], axis=0)
        self.entered: Floats = np.sum([group.outstanding for group in groups], axis=0)
        self.elastic: Floats = np.sum([group.elastic for group in groups], axis=0)
        # Plain lists: they change, and are asked for, with every placement.
        self.allocated: list[float] = allocated.tolist()
        self.deserved = [0.0] * len(allocated)


class Proportion(SchedulerPlugin, QueueOrder, QueueOverused, QueueRoom, QueueMayReclaim, Reclaimable, GroupEnqueueable):
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
            return 0, _not_open(account.queue)
        room = wanted
        for column, amount in self.session.asked(shape):
            if column != self._pods:
                room = _how_many(account.deserved[column], account.allocated[column], amount, room)
        return room, None if room == wanted else self._over_share(account, shape)

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
            return Vote.REJECT, _not_open(account.queue)
        minimum = state.group.minimum
        total = minimum + account.allocated + account.entered - account.elastic
        columns = self.session.snapshot.columns
        over = exceeded(total, account.ceiling, minimum, columns.counted)
        if not over.any():
            return Vote.PERMIT, None
        lines = np.flatnonzero(over)
        named = ", ".join(f"insufficient {columns.names[column]}" for column in lines)
        left = np.maximum(account.ceiling - (total - minimum), 0.0)
        detail = f"queue {account.queue.name}: {asked_and_left(columns.names, lines, minimum, left)}"
        return Vote.REJECT, Unfit(Reason.QUEUE_OVER_QUOTA, f"queue resource quota insufficient: {named}", detail)

    def group_enqueued(self, state: GroupState) -> None:
        account = self._accounts[state.queue.name]
        account.entered = account.entered + state.group.claim

    def _moved(self, state: GroupState, shape: int, count: int) -> None:
        allocated = self._accounts[state.queue.name].allocated
        for column, amount in self.session.asked(shape):
            allocated[column] += amount * count

    def _open_accounts(self) -> dict[str, _Account]:
        """An account for every queue that has groups; the others take no part."""
        session = self.session
        width = len(session.snapshot.columns)
        guarantees = {name: session.snapshot.columns.row(queue.guarantee) for name, queue in session.queues.items()}
        unguaranteed = np.maximum(session.total - sum(guarantees.values(), np.zeros(width)), 0.0)
        members: dict[str, list[Group]] = {}
        for state in session.groups:
            members.setdefault(state.queue.name, []).append(state.group)
        accounts: dict[str, _Account] = {}
        for name, groups in members.items():
            queue = session.queues[name]
            ceiling = np.minimum(unguaranteed + guarantees[name], self._capability(queue))
            accounts[name] = _Account(queue, ceiling, guarantees[name], groups)
        return accounts

    def _capability(self, queue: Queue) -> Floats:
        limits = {name: amount for name, amount in queue.capability.items() if amount > 0 or name not in (CPU, MEMORY)}
        return self.session.snapshot.columns.row(limits, missing=np.inf)

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
        )
        for account, line in zip(accounts, deserved):
            account.deserved = line.tolist()

    def _over_share(self, account: _Account, shape: int) -> Unfit:
        names = self.session.snapshot.columns.names
        parts = [
            f"{names[column]}: {show_amount(names[column], amount)} asked, "
            f"{show_amount(names[column], account.allocated[column])} in use, "
            f"{show_amount(names[column], account.deserved[column])} deserved"
            for column, amount in self.session.asked(shape)
            if column != self._pods and account.allocated[column] + amount > account.deserved[column]
        ]
        return Unfit(Reason.QUEUE_OVER_QUOTA, f"queue {account.queue.name} is at its share ({'; '.join(parts)})")


def _how_many(deserved: float, allocated: float, amount: float, most: int) -> int:
    """How many times `amount` fits, at most `most`. Exact: a division off in the last bit does not decide."""
    if allocated + amount * most <= deserved:
        return most
    room = max(0, min(most, int((deserved - allocated) // amount) + 1))
    while room and allocated + amount * room > deserved:
        room -= 1
    return room


def _not_open(queue: Queue) -> Unfit:
    return Unfit(Reason.QUEUE_NOT_OPEN, f"queue {queue.name} is {queue.state}")
