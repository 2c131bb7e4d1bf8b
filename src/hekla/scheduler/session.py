"""The snapshot made tentative: the same tables, changed as the cycle goes along, and every change undone on demand.

Node tables change only through `place` and `take_back`, which tell the plugins that keep sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hekla.api.meta import Key
from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.cardbook import CardBook
from hekla.scheduler.crowd import NO_KIN, Crowd
from hekla.scheduler.families import NO_FAMILY, Families
from hekla.scheduler.fit import FitError, Unfit
from hekla.scheduler.images import NO_IMAGES, Images
from hekla.scheduler.rows import Constraints, HostPort, Pod, PodStatus, Queue
from hekla.scheduler.snapshot import Group, Snapshot, Statuses, are
from hekla.scheduler.timings import Timings
from hekla.scheduler.volumebook import VolumeBook

READY_STATUSES = (
    PodStatus.ALLOCATED,
    PodStatus.BINDING,
    PodStatus.BOUND,
    PodStatus.RUNNING,
    PodStatus.SUCCEEDED,
)

# moved(group, shape, how many pods of it came (or went, when negative))
Listener = Callable[["GroupState", int, int], None]
# moved(group, positions, node lines, +1 for coming or -1 for going)
Mover = Callable[["GroupState", Sequence[int], Sequence[int], int], None]


class Tried(NamedTuple):
    """What a discarded statement had given a pod, and whether others would have had to leave for it."""

    status: PodStatus
    line: int
    cleared: bool


class GroupState:
    """One group in the course of a cycle. Its columns are copied when first changed."""

    # Most groups of a cycle are at rest: nothing is made for them before something happens.
    __slots__ = (
        "_cleared", "_errors", "_own", "_tried", "counts", "failed_roles", "group", "held_back", "invalid", "node",
        "phase", "queue", "refused", "status",
    )  # fmt: skip

    def __init__(self, group: Group, queue: Queue) -> None:
        self.group = group
        self.queue = queue
        self.phase = group.row.phase
        self.counts: Sequence[int] = group.counts
        self.status: Statuses = group.status
        self.node: Ints | None = None  # the node line chosen in this cycle, -1 for none
        self.failed_roles: tuple[int, ...] = ()
        self.refused: tuple[Unfit, ...] = ()  # by enqueue
        self.held_back: Unfit | None = None  # by a limit of the queue
        self.invalid: Unfit | None = None
        self._tried: dict[int, Tried] | None = None
        self._cleared: set[int] | None = None
        self._errors: dict[int, FitError] | None = None
        self._own = False

    @property
    def tried(self) -> dict[int, Tried]:
        """By pod position: what a discarded statement had given it."""
        if self._tried is None:
            self._tried = {}
        return self._tried

    @property
    def cleared(self) -> set[int]:
        """Positions of pods for which others were made to leave."""
        if self._cleared is None:
            self._cleared = set()
        return self._cleared

    @property
    def errors(self) -> dict[int, FitError]:
        """By pod position: why no node takes it."""
        if self._errors is None:
            self._errors = {}
        return self._errors

    @property
    def ready_pods(self) -> int:
        counts = self.counts
        return counts[1] + counts[3] + counts[4] + counts[5] + counts[7]  # READY_STATUSES, spelled out: asked often

    @property
    def waiting_pods(self) -> int:
        return self.counts[PodStatus.PIPELINED]

    @property
    def leaving_nodes(self) -> int:
        """Pods on their way out that had come as far as a node."""
        if not self.counts[PodStatus.RELEASING]:
            return 0
        return sum(1 for at in np.flatnonzero(are(self.status, PodStatus.RELEASING)) if self.group.pods[at].node)

    @property
    def pending_best_effort(self) -> int:
        if not self.group.has_best_effort or not self.counts[PodStatus.PENDING]:
            return 0
        return int(np.count_nonzero(self.group.best_effort & are(self.status, PodStatus.PENDING)))

    @property
    def valid_pods(self) -> int:
        return self.ready_pods + self.waiting_pods + self.counts[PodStatus.PENDING]

    def counts_of_role(self, role: int) -> Sequence[int]:
        """Pods of one role, by status."""
        if len(self.group.roles) == 1:
            return self.counts
        found: list[int] = np.bincount(self.status[self.group.role == role], minlength=len(PodStatus)).tolist()
        return found

    def pending_best_effort_of_role(self, role: int) -> int:
        group = self.group
        if not group.has_best_effort:
            return 0
        return int(np.count_nonzero(group.best_effort & are(self.status, PodStatus.PENDING) & (group.role == role)))

    def mark(self, positions: Ints, before: PodStatus, after: PodStatus, nodes: Ints | int) -> None:
        if not self._own:
            self.status, self.counts, self._own = self.status.copy(), list(self.counts), True
            self.node = np.full(len(self.status), -1, dtype=np.int64)
        assert self.node is not None
        assert isinstance(self.counts, list)
        if len(positions) == 1:
            # One cell is set several times faster by its number than through an array of one.
            at = int(positions[0])
            self.status[at], self.node[at] = after, nodes if isinstance(nodes, int) else nodes[0]
        else:
            self.status[positions] = after
            self.node[positions] = nodes
        self.counts[before] -= len(positions)
        self.counts[after] += len(positions)


class PodClass(NamedTuple):
    """All that choosing a node depends on: pods of one class are treated alike."""

    shape: int
    kin: int
    queue: str
    claims: tuple[Key, ...] = ()
    family: int = NO_FAMILY
    images: int = NO_IMAGES
    tag: int = -1  # given by a plugin to pods it wants to judge one by one


@dataclass(slots=True)
class Tallies:
    """What a cycle did to make room, for the figures."""

    attempts: int = 0  # nodes on which preempting tried to make room
    victims: int = 0  # who would have had to leave at the last of them
    transactions: Counter[str] = field(default_factory=Counter)  # sets of evictions decided, by action


class Departure(NamedTuple):
    """A pod that is to leave its node, for which action, and for whose sake."""

    state: GroupState
    position: int
    reason: str
    contender: GroupState | None


@dataclass(slots=True)
class Session:
    snapshot: Snapshot
    active: list[GroupState] = field(init=False)  # groups about which there is something to decide
    queues: dict[str, Queue] = field(init=False)
    idle: Floats = field(init=False)
    used: Floats = field(init=False)
    releasing: Floats = field(init=False)
    held_slots: Floats = field(init=False)  # by node: see `hold_slots`
    pipelined: Floats = field(init=False)
    assumed: Floats = field(init=False)
    ports: dict[int, tuple[HostPort, ...]] = field(init=False)
    total: Floats = field(init=False)
    crowd: Crowd = field(init=False)
    families: Families = field(init=False)
    images: Images = field(init=False)
    listeners: list[Listener] = field(default_factory=list)
    movers: list[Mover] = field(default_factory=list)
    reservers: list[Listener] = field(default_factory=list)  # told of pods let in by their queue and not placed yet
    admitted: list[Pod] = field(default_factory=list)  # those let in by this cycle
    tags: dict[str, int] = field(default_factory=dict)  # by pod uid
    fickle_queues: set[str] = field(default_factory=set)  # whose pods, once placed, change where others of it may go
    leaving: dict[str, Pod] = field(default_factory=dict)  # by uid: made to leave in this cycle, perhaps not for good
    cards: CardBook | None = None  # which cards pods get, where a plugin gives any
    due: float | None = None
    volume_seconds: float = 600.0  # how long pods wait for their volumes once they have a node
    evictions: list[Departure] = field(default_factory=list)  # decided for good
    changes: list[Ints] = field(default_factory=list)  # node lines that changed, in order; only ever grows
    _asked: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    action_names: tuple[str, ...] = ()
    timings: Timings = field(default_factory=Timings)
    tallies: Tallies = field(default_factory=Tallies)
    memo: dict[object, Any] = field(default_factory=dict)  # for what holds for the whole cycle
    _groups: list[GroupState] | None = None
    _lines: dict[str, int] | None = None
    _volumes: VolumeBook | None = None
    _later: bool = field(init=False)
    _free_in_all: tuple[int, Floats] | None = field(init=False, default=None)  # and at how many changes
    _floor: list[float] = field(init=False)  # no node has less idle than this, resource by resource

    def __post_init__(self) -> None:
        nodes = self.snapshot.nodes
        self.queues = {queue.name: queue for queue in self.snapshot.queues}
        self.active = self._states(self.snapshot.groups)
        self.crowd = Crowd(self.snapshot)
        self.families = Families(self.snapshot)
        self.images = Images(self.snapshot.images, len(nodes))
        self.used = nodes.used.copy(order="F")
        self.idle = nodes.allocatable - nodes.used
        self.releasing = nodes.releasing.copy(order="F")
        self.held_slots = np.zeros(len(nodes))
        self.pipelined = np.zeros_like(nodes.used)
        self.assumed = nodes.assumed.copy(order="F")
        self.ports = dict(nodes.ports)
        self.total = nodes.allocatable.sum(axis=0)
        self._later = bool(self.releasing.any())
        self._floor = self.idle.min(axis=0, initial=np.inf).tolist()

    @property
    def groups(self) -> list[GroupState]:
        """All groups, by age. There may be very many: who is concerned with waiting pods looks at `active`."""
        if self._groups is None:
            self._groups = self.active
            if self.snapshot.resting:
                every = [*self.active, *self._states(self.snapshot.resting)]
                self._groups = sorted(every, key=lambda state: (state.group.row.created, state.group.row.key))
        return self._groups

    def concerned(self) -> list[GroupState]:
        """The active groups, and those that a decision has touched since."""
        if self._groups is None or self._groups is self.active:
            return self.active
        active = {id(state) for state in self.active}
        return [state for state in self._groups if id(state) in active or state.node is not None]

    def _states(self, groups: Iterable[Group]) -> list[GroupState]:
        queues = self.queues
        return [GroupState(group, queues[group.row.queue]) for group in groups if group.row.queue in queues]

    @property
    def lines(self) -> dict[str, int]:
        """The line of each node by name."""
        if self._lines is None:
            self._lines = {node.name: line for line, node in enumerate(self.snapshot.nodes.rows)}
        return self._lines

    def class_of(self, state: GroupState, position: int) -> PodClass:
        pod, shape = state.group.pods[position], int(state.group.shape[position])
        kin = self.crowd.kin(pod) if self.crowd.active else NO_KIN
        claims = pod.claim_keys if pod.claims else ()
        tag = self.tags.get(pod.uid, -1) if self.tags else -1
        family = self.families.number(pod) if self.families.active else NO_FAMILY
        images = self.images.number(pod) if self.images.active else NO_IMAGES
        return PodClass(shape, kin, state.queue.name, claims, family, images, tag)

    def look_again_at(self, moment: float) -> None:
        """Ask for a cycle at a time when something may be decided differently, though nothing has changed."""
        self.due = moment if self.due is None else min(self.due, moment)

    def constraints(self, of: PodClass) -> Constraints:
        return self.snapshot.shapes[of.shape].constraints

    def is_social(self, of: PodClass) -> bool:
        """Whether where pods of the class may go depends on where pods are."""
        return of.kin != NO_KIN or of.tag >= 0 or self.snapshot.shapes[of.shape].constraints.company is not None

    def is_fickle(self, of: PodClass) -> bool:
        """Whether placing pods may change where pods of the class may go, for whatever reason but room."""
        if self.is_social(of) or of.queue in self.fickle_queues:
            return True
        if self.cards is not None and self.cards.request(of.shape) is not None:
            return True
        return bool(of.claims) and (self.volumes.is_open(of.claims) or bool(self.snapshot.storage.limits))

    @property
    def volumes(self) -> VolumeBook:
        if self._volumes is None:
            self._volumes = VolumeBook(self.snapshot.storage, self.snapshot.nodes.rows)
        return self._volumes

    def request(self, shape: int) -> Floats:
        row: Floats = self.snapshot.requests[shape]
        return row

    def asked(self, shape: int) -> list[tuple[int, float]]:
        """What a pod of the shape asks for, as (column, amount)."""
        found = self._asked.get(shape)
        if found is None:
            amounts = self.snapshot.requests[shape].tolist()
            found = self._asked[shape] = [(column, amount) for column, amount in enumerate(amounts) if amount > 0]
        return found

    def contested(self, shape: int) -> list[tuple[int, float]]:
        """What of `asked` some node may lack; for the rest there is no need to look."""
        if self._later:
            return self.asked(shape)
        return [(column, amount) for column, amount in self.asked(shape) if amount > self._floor[column]]

    @property
    def may_be_overfull(self) -> bool:
        """Whether pods on some node may hold more CPU or memory than it has."""
        return self._floor[0] < 0 or self._floor[1] < 0

    def free_now(self) -> Floats:
        """What a pod may take at once: idle, and not promised to somebody already."""
        if not self._later:
            return self.idle
        free: Floats = np.minimum(self.idle, self.free_later())
        return free

    def free_later_on(self, line: int) -> Floats:
        free: Floats = self.idle[line] + self.releasing[line] - self.pipelined[line]
        return free

    def free_later(self) -> Floats:
        """What will be free once the pods that are leaving have left, promises kept."""
        if not self._later:
            return self.idle
        free: Floats = self.idle + self.releasing - self.pipelined
        return free

    def free_in_all(self) -> Floats:
        """The same, of all nodes together; asked for by each of many who wait, when nothing moves any more."""
        if self._free_in_all is None or self._free_in_all[0] != len(self.changes):
            self._free_in_all = len(self.changes), self.free_later().sum(axis=0)
        return self._free_in_all[1]

    def hold_slots(self) -> None:
        """Have the slots of pods that were leaving before this cycle began stay taken, whatever else they will free."""
        pods = self.snapshot.columns.pods
        self.held_slots += self.releasing[:, pods]
        self.releasing[:, pods] = 0.0

    @property
    def has_later(self) -> bool:
        """Whether waiting could give more than what is idle."""
        return self._later

    def place(self, state: GroupState, positions: Ints, nodes: Ints, shape: int, status: PodStatus) -> None:
        """Put pending pods of one shape on nodes, now (ALLOCATED) or once there is room (PIPELINED)."""
        state.mark(positions, PodStatus.PENDING, status, nodes)
        self._account(nodes, shape, status, 1.0)
        self._move(state, positions, nodes, 1)
        for listener in self.listeners:
            listener(state, shape, len(positions))
        if state.group.has_queue_gates:
            self.reserve(state, shape, -int(np.count_nonzero(state.group.let_in[positions])))

    def take_back(self, state: GroupState, positions: Ints, nodes: Ints, shape: int, status: PodStatus) -> None:
        """The exact inverse of `place`."""
        if state.group.has_queue_gates:
            self.reserve(state, shape, int(np.count_nonzero(state.group.let_in[positions])))
        for listener in reversed(self.listeners):
            listener(state, shape, -len(positions))
        self._move(state, positions, nodes, -1)
        self._account(nodes, shape, status, -1.0)
        state.mark(positions, status, PodStatus.PENDING, -1)

    def reserve(self, state: GroupState, shape: int, count: int) -> None:
        """So many more pods (fewer, when negative) are let in and wait for a node."""
        for reserver in self.reservers if count else ():
            reserver(state, shape, count)

    def let_in(self, state: GroupState, positions: Ints, shape: int) -> None:
        """Have pods that their queue alone holds back, and has room for, held back no longer."""
        self.admitted += [state.group.pods[position] for position in positions.tolist()]
        self.reserve(state, shape, len(positions))

    def evict(self, state: GroupState, position: int, line: int, shape: int) -> None:
        """Count a running pod as leaving: its room is there later, its ports and its share at once."""
        before = PodStatus(int(state.status[position]))
        self.leaving[state.group.pods[position].uid] = state.group.pods[position]
        state.mark(np.array([position]), before, PodStatus.RELEASING, -1)
        self._account_leaving(line, shape, 1.0)
        self._move(state, np.array([position]), np.array([line]), -1)
        for listener in self.listeners:
            listener(state, shape, -1)

    def keep(self, state: GroupState, position: int, line: int, shape: int, before: PodStatus) -> None:
        """The exact inverse of `evict`."""
        for listener in reversed(self.listeners):
            listener(state, shape, 1)
        self._move(state, np.array([position]), np.array([line]), 1)
        self._account_leaving(line, shape, -1.0)
        state.mark(np.array([position]), PodStatus.RELEASING, before, -1)
        del self.leaving[state.group.pods[position].uid]

    def _move(self, state: GroupState, positions: Ints, nodes: Ints, sign: int) -> None:
        for mover in self.movers:
            mover(state, positions.tolist(), nodes.tolist(), sign)
        for onlookers in (self.crowd, self.families):
            if onlookers.active:
                onlookers.move([state.group.pods[at] for at in positions.tolist()], nodes.tolist(), sign)

    def _account_leaving(self, line: int, shape: int, sign: float) -> None:
        self.releasing[line] += self.request(shape) * sign
        self._later = True
        self.changes.append(np.array([line]))
        ports = self.snapshot.shapes[shape].constraints.ports
        if ports:
            self._account_ports(np.array([line]), ports, -sign)

    def _account(self, nodes: Ints, shape: int, status: PodStatus, sign: float) -> None:
        kind = self.snapshot.shapes[shape]
        if len(nodes) == 1:
            self._account_one(int(nodes[0]), shape, status, sign)
        else:
            self._account_many(nodes, shape, status, sign)
        self.changes.append(nodes)
        if kind.constraints.ports:
            self._account_ports(nodes, kind.constraints.ports, sign)

    def _account_many(self, nodes: Ints, shape: int, status: PodStatus, sign: float) -> None:
        lines, count = np.unique(nodes, return_counts=True)
        times = count * sign
        amount: Floats = times[:, None] * self.request(shape)
        if status is PodStatus.PIPELINED:
            self.pipelined[lines] += amount
            self._later = True
        else:
            self.idle[lines] -= amount
            self.used[lines] += amount
            if sign > 0:
                self._floor = list(map(min, self._floor, self.idle[lines].min(axis=0).tolist()))
        kind = self.snapshot.shapes[shape]
        self.assumed[lines, 0] += kind.assumed_cpu * times
        self.assumed[lines, 1] += kind.assumed_memory * times

    def _account_one(self, line: int, shape: int, status: PodStatus, sign: float) -> None:
        """As for many, cell by cell: for a single line that is several times faster."""
        if status is PodStatus.PIPELINED:
            self.pipelined[line] += self.request(shape) * sign
            self._later = True
        else:
            idle, used, floor = self.idle, self.used, self._floor
            for column, amount in self.asked(shape):
                left = idle.item(line, column) - amount * sign
                idle[line, column] = left
                used[line, column] += amount * sign
                if left < floor[column]:
                    floor[column] = left
        kind = self.snapshot.shapes[shape]
        self.assumed[line, 0] += kind.assumed_cpu * sign
        self.assumed[line, 1] += kind.assumed_memory * sign

    def _account_ports(self, nodes: Ints, ports: tuple[HostPort, ...], sign: float) -> None:
        for line in nodes.tolist():
            held = list(self.ports.get(line, ()))
            for port in ports:
                held.append(port) if sign > 0 else held.remove(port)
            self.ports[line] = tuple(held)
