"""Queues own what they deserve, may use more while it is free, and get it back when they need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hekla.api.reasons import Reason
from hekla.api.scheduling import ROOT_QUEUE, QueueState
from hekla.scheduler.accounts import (
    Account,
    flat_ceilings,
    guarantees,
    how_many,
    members_by_queue,
    not_open,
    queue_figures,
)
from hekla.scheduler.arrays.resources import TOLERANCE, Floats
from hekla.scheduler.books import Book
from hekla.scheduler.extension import (
    HIERARCHY,
    Argument,
    GroupEnqueueable,
    Measured,
    QueueBooks,
    QueueMayReclaim,
    QueueOrder,
    QueueRoom,
    Reclaimable,
    SchedulerPlugin,
    VictimQueueOrder,
    Vote,
)
from hekla.scheduler.figure import Figure
from hekla.scheduler.fit import Unfit
from hekla.scheduler.queuetree import QueueTree
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import PodStatus, Queue
from hekla.scheduler.session import GroupState, Session

_LEVEL = "ancestorReclaimLevel"


def refuse_devices(wanted: bool) -> None:
    """Whoever switches this on counts on quotas that nobody would keep."""
    if wanted:
        raise ValueError("resource claims are not supported yet")


class Capacity(
    SchedulerPlugin,
    QueueOrder,
    VictimQueueOrder,
    QueueRoom,
    QueueMayReclaim,
    Reclaimable,
    GroupEnqueueable,
    QueueBooks,
    Measured,
):
    """`capability` is the limit; what a queue holds beyond `deserved` others may reclaim, never below `guarantee`."""

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        _LEVEL: Argument(int, 0),
        "capacity.DynamicResourceAllocationEnable": Argument(bool, False, refuse_devices),
        "capacity.DRAConsumableCapacityEnable": Argument(bool, False, refuse_devices),
    }
    OPTIONS: ClassVar[tuple[str, ...]] = (HIERARCHY,)

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._columns = session.snapshot.columns
        self._tree = QueueTree(session.queues) if arguments[HIERARCHY] else None
        self._level = max(0, arguments[_LEVEL]) if self._tree else 0
        self._accounts = self._open_tree(self._tree) if self._tree else self._open_accounts()
        self._turns = self._oldest_waiting(self._tree) if self._tree else {}
        self._ranks: dict[str, tuple[float, float]] = {}  # of queues that nothing has come to or left since
        self._ways: dict[str, list[Account]] = {}
        session.listeners.append(self._moved)
        session.reservers.append(self._reserve)
        for state in session.active:
            if state.group.has_queue_gates:
                waiting = np.flatnonzero(state.group.let_in & (state.status == PodStatus.PENDING))
                for shape in state.group.shape[waiting].tolist():
                    self._reserve(state, shape, 1)

    # Order

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        if self._tree is None:
            return (-queue.priority, *self._rank(queue.name))
        # Two queues are told apart where their ways down part: below that nothing matters.
        way = [(self._rank(name), self._turns[name]) for name in self._tree.way_down(queue.name)]
        return (-queue.priority, float(not self._tree.is_leaf(queue.name)), *way)

    def victim_queue_key(self, queue: Queue, contender: Queue) -> float:
        return 0.0 if self._tree is None else -float(self._tree.common_depth(queue.name, contender.name))

    def queue_books(self, queue: Queue) -> list[Book]:
        if queue.name not in self._accounts or (self._tree and self._tree.trouble(queue.name)):
            return []
        return [account.book(self._columns) for account in self._up_from(queue.name)]

    def figures(self) -> Iterator[Figure]:
        for name, account in self._accounts.items():
            part = self._rank(name)[0]
            declared = self._columns.row(account.queue.capability)
            yield from account.figures(self._columns)
            yield from queue_figures(self._columns, name, "capacity", declared.tolist())
            yield from queue_figures(self._columns, name, "real_capacity", account.ceiling.tolist())
            yield Figure("queue_share", (name,), part)
            yield Figure("queue_overused", (name,), part > 1)

    # Limits

    def queue_room(self, state: GroupState, shape: int, wanted: int) -> tuple[int, Unfit | None]:
        objection = self._objection(state.queue)
        if objection is not None:
            return 0, objection
        room, tight = wanted, None
        for account in self._up_from(state.queue.name):
            for column, amount in self.session.asked(shape):
                if column != self._columns.pods:
                    taken = account.allocated[column] + account.reserved[column]
                    fewer = how_many(float(account.ceiling[column]), taken, amount, room)
                    room, tight = (fewer, account) if fewer < room else (room, tight)
        return room, None if tight is None else self._over_limit(tight, shape, room)

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        objection = self._objection(state.queue)
        for account in self._up_from(state.queue.name):
            objection = objection or account.objection_to_entering(
                self._columns, state.group.minimum, self.session.total
            )
        return (Vote.PERMIT, None) if objection is None else (Vote.REJECT, objection)

    def group_enqueued(self, state: GroupState) -> None:
        for account in self._up_from(state.queue.name):
            account.entered = account.entered + state.group.claim

    # Reclaiming

    def may_reclaim(self, state: GroupState, shape: int) -> bool:
        if self._objection(state.queue) is not None:
            return False
        own, *above = self._up_from(state.queue.name)
        asked = [(column, amount) for column, amount in self.session.asked(shape) if column != self._columns.pods]
        if any(own.allocated[column] + amount > own.ceiling[column] for column, amount in asked):
            return False
        # In the tree an ancestor's share may do as well; the root's would always.
        entitled = [own, *(account for account in above[: self._level] if not self._is_root(account))]
        return any(
            account.allocated[column] + amount - account.deserved[column] < TOLERANCE
            for account in entitled
            for column, amount in asked
        )

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident] | None:
        books: dict[str, list[float]] = {}
        allowed = []
        for resident in candidates:
            asked = self.session.asked(resident.shape)
            shared = {column for column, _ in asked} & {column for column, _ in self.session.asked(contender.shape)}
            if not shared - {self._columns.pods}:
                continue
            charged = self._may_lose(contender, resident, books)
            if charged is None:
                continue
            allowed.append(resident)
            for account in charged:
                held = books.setdefault(account.queue.name, list(account.allocated))
                for column, amount in asked:
                    held[column] -= amount
        return allowed

    def _may_lose(
        self, contender: Contender, resident: Resident, books: Mapping[str, list[float]]
    ) -> list[Account] | None:
        """The accounts a resident's leaving is charged to; None where it may not be made to leave."""
        own, *above = self._up_from(resident.state.queue.name)
        request = self.session.request(resident.shape)
        held = np.array(books.get(own.queue.name, own.allocated))
        if np.any(own.guarantee - (held - request) >= TOLERANCE):
            return None
        unowned = self._is_unowned(own, request)
        if not unowned and not self._is_beyond(own, held, request):
            return None
        if not self._level:
            return [own]
        rivals = self._up_from(contender.state.queue.name)
        if unowned and self._is_spared(rivals, [own, *above], contender):
            return None
        charged = [own]
        for distance, account in enumerate(above[: self._level], start=1):
            if self._is_root(account) or account in rivals[distance : distance + 1]:
                continue
            held = np.array(books.get(account.queue.name, account.allocated))
            if not self._is_unowned(account, request) and not self._is_beyond(account, held, request):
                return None
            charged.append(account)
        return charged

    def _is_unowned(self, account: Account, request: Floats) -> bool:
        """Whether the queue deserves nothing at all of what the pod holds."""
        return not any(amount > 0 and owned >= TOLERANCE for amount, owned in zip(request, account.deserved))

    def _is_beyond(self, account: Account, held: Floats, request: Floats) -> bool:
        """Whether the queue holds more than it deserves of something that the pod holds and it has a share of."""
        named = {*account.queue.deserved, *account.queue.guarantee}
        for column in np.flatnonzero((held > account.deserved) & (request > 0) & self._columns.counted).tolist():
            owned = account.deserved[column] >= TOLERANCE
            # parity: a share of zero counts as one for devices and the like, not for CPU and memory.
            if owned or (column >= 2 and self._columns.names[column] in named):
                return True
        return False

    def _is_spared(self, rivals: list[Account], accounts: list[Account], contender: Contender) -> bool:
        """Relatives do not take from each other what the taker's own queue deserves nothing of."""
        near = [account for account in rivals[1 : self._level + 1] if not self._is_root(account)]
        related = any(account in accounts[1 : self._level + 1] for account in near)
        return related and self._is_unowned(rivals[0], self.session.request(contender.shape))

    # Books

    def _objection(self, queue: Queue) -> Unfit | None:
        if queue.state is not QueueState.OPEN:
            return not_open(queue)
        trouble = self._tree.trouble(queue.name) if self._tree else ""
        if self._tree is None or not trouble:
            return None
        return Unfit(Reason.QUEUE_UNUSABLE, trouble, told=self._tree.is_lost(queue.name))

    def _rank(self, name: str) -> tuple[float, float]:
        found = self._ranks.get(name)
        if found is None:
            found = self._ranks[name] = self._rank_now(name)
        return found

    def _rank_now(self, name: str) -> tuple[float, float]:
        account = self._accounts.get(name)
        # parity: a number of pods alone is no share.
        if account is None or not np.any(np.array(account.deserved)[self._columns.counted] >= TOLERANCE):
            return (1.0, 1.0)
        shares = [held / due for held, due in zip(account.allocated, account.deserved) if due >= TOLERANCE]
        return (max(shares), 0.0)

    def _up_from(self, name: str) -> list[Account]:
        """The queue's account and, in the tree, those of its ancestors up to the root."""
        found = self._ways.get(name)
        if found is None:
            way = [name] if self._tree is None else self._tree.way_up(name)
            found = self._ways[name] = [self._accounts[at] for at in way]
        return found

    def _is_root(self, account: Account) -> bool:
        return self._tree is not None and self._tree.is_root(account.queue.name)

    def _moved(self, state: GroupState, shape: int, count: int) -> None:
        for account in self._up_from(state.queue.name):
            account.move(self.session.asked(shape), count)
            self._ranks.pop(account.queue.name, None)

    def _reserve(self, state: GroupState, shape: int, count: int) -> None:
        for account in self._up_from(state.queue.name):
            account.reserve(self.session.asked(shape), count)

    def _over_limit(self, account: Account, shape: int, fit: int) -> Unfit:
        sums = account.arithmetic(self._columns, self.session.asked(shape), fit, account.ceiling.tolist(), "allowed")
        return Unfit(Reason.QUEUE_OVER_QUOTA, f"queue {account.queue.name} is at its limit ({sums})")

    def _open_accounts(self) -> dict[str, Account]:
        """An account for every queue that has groups."""
        session = self.session
        ceilings, guaranteed = flat_ceilings(session), guarantees(session)
        accounts = {}
        for name, groups in members_by_queue(session).items():
            queue = session.queues[name]
            account = accounts[name] = Account(queue, ceilings[name], guaranteed[name], groups)
            deserved = self._columns.row(queue.deserved)
            # parity: of a device that there is none of at all a queue keeps its share, though it cannot use it.
            bounded = (session.total > 0) | (guaranteed[name] > 0)
            bounded[:2] = True
            deserved = np.where(bounded, np.minimum(deserved, ceilings[name]), deserved)
            account.deserved = np.maximum(deserved, guaranteed[name]).tolist()
        return accounts

    def _open_tree(self, tree: QueueTree) -> dict[str, Account]:
        """An account for every queue; groups count for all queues above theirs as well."""
        session = self.session
        members = members_by_queue(session)
        ceilings, guaranteed = tree.ceilings(session), guarantees(session)
        accounts = {}
        for name, queue in session.queues.items():
            below = [group for at in tree.all_below(name) for group in members.get(at, ())]
            account = accounts[name] = Account(queue, ceilings[name], guaranteed[name], below)
            account.deserved = np.maximum(self._columns.row(queue.deserved), guaranteed[name]).tolist()
        if ROOT_QUEUE in accounts:
            parts = [np.array(accounts[child].deserved) for child in tree.children(ROOT_QUEUE)]
            accounts[ROOT_QUEUE].deserved = sum(parts, np.zeros(len(self._columns))).tolist()
        return accounts

    def _oldest_waiting(self, tree: QueueTree) -> dict[str, tuple[float, str]]:
        """By queue: age and name of the oldest at or below it in which pods wait, or of any where none do.

        By these have equals their turn. Were it by the two queues themselves, three could each come before the next.
        """
        waiting = {state.queue.name for state in self.session.active if state.counts[PodStatus.PENDING]}
        ages = [(queue.created, name) for name, queue in self.session.queues.items()]
        oldest: dict[str, tuple[float, str]] = {}
        for age in sorted(ages, key=lambda age: (age[1] not in waiting, age)):
            for name in tree.way_up(age[1]):
                oldest.setdefault(name, age)
        return oldest
