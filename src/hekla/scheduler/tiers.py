"""The configured plugins at work: how several answers become one, written once for each extension point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hekla.api.reasons import Reason
from hekla.log import get_logger
from hekla.scheduler.arrays.blocks import Bounded, OpenLines, best_line
from hekla.scheduler.arrays.greedy import Following
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.arrays.scores import Standing
from hekla.scheduler.blame import FAILURES, PluginFailure, PluginLost, culprit, failure_of
from hekla.scheduler.books import Book
from hekla.scheduler.extension import (
    GroupEnqueueable,
    GroupOrder,
    GroupPipelined,
    GroupReady,
    GroupStarving,
    GroupValid,
    Measured,
    NodeFilter,
    NodeScore,
    PairScore,
    PodOrder,
    Preemptable,
    QueueBooks,
    QueueMayReclaim,
    QueueOrder,
    QueueOverused,
    QueueRoom,
    Reclaimable,
    SchedulerPlugin,
    SubgroupOrder,
    SubgroupPipelined,
    SubgroupReady,
    Verdict,
    VictimQueueOrder,
    Vote,
)
from hekla.scheduler.families import NO_FAMILY
from hekla.scheduler.figure import Figure
from hekla.scheduler.fit import Refusal, Unfit
from hekla.scheduler.residents import Contender, Resident
from hekla.scheduler.rows import Queue
from hekla.scheduler.session import GroupState, PodClass, Session
from hekla.scheduler.snapshot import Group
from hekla.scheduler.timings import CLOSING, PREDICATE

log = get_logger("scheduler")


class Lost(SchedulerPlugin, GroupValid, GroupEnqueueable):
    """Stands in for a plugin that failed: what it might have objected to waits."""

    def __init__(self, session: Session, failure: PluginFailure) -> None:
        super().__init__({}, session)
        self._unfit = Unfit(Reason.PLUGIN_FAILED, failure.sentence)

    def group_valid(self, state: GroupState) -> Unfit | None:
        return self._unfit

    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        return Vote.REJECT, self._unfit

    def group_enqueued(self, state: GroupState) -> None:
        return None


_OPINIONS = (GroupOrder, SubgroupOrder, QueueOrder, VictimQueueOrder, PodOrder, NodeScore)


def stand_in(plugin: type[SchedulerPlugin], session: Session, failure: PluginFailure) -> SchedulerPlugin:
    """What takes the place of a plugin that failed: nothing, where it has only opinions about what comes first."""
    points = {base for base in plugin.__mro__ if "switch" in vars(base)}
    return SchedulerPlugin({}, session) if points <= set(_OPINIONS) else Lost(session, failure)


A = TypeVar("A")
B = TypeVar("B")
P = TypeVar("P")


@dataclass(frozen=True, slots=True, eq=False)
class OpenPlugin:
    """A plugin at work in one cycle, and the switches that are off for it."""

    name: str
    plugin: SchedulerPlugin
    off: frozenset[str]


class Tiers:
    """The configured plugins, tier by tier, and every rule by which their answers combine."""

    def __init__(
        self,
        session: Session,
        tiers: Sequence[Sequence[OpenPlugin]],
        lost: Mapping[str, PluginFailure] | None = None,
    ) -> None:
        self._session = session
        self._tiers = tiers
        self._plugins = {opened.name: opened.plugin for tier in tiers for opened in tier}
        self.failures: dict[tuple[str, str], PluginFailure] = {
            (failure.plugin, failure.text): failure for failure in (lost or {}).values()
        }
        self._group_order = self._all(GroupOrder)
        self._queue_order = self._all(QueueOrder)
        self._victim_queue_order = self._all(VictimQueueOrder)
        self._pod_order = self._all(PodOrder)
        self._valid = self._all(GroupValid)
        self._ready = self._all(GroupReady)
        self._subgroup_order = self._all(SubgroupOrder)
        self._subgroup_ready = self._all(SubgroupReady)
        self._overused = self._all(QueueOverused)
        self._room = self._all(QueueRoom)
        # Whether a queue may turn overused while it still has room: then it is asked before each turn.
        self.may_overuse_room = not {id(plugin) for plugin in self._overused} <= {id(plugin) for plugin in self._room}
        self._filters = self._all(NodeFilter)
        self._scores = self._all(NodeScore)
        names = {id(opened.plugin): opened.name for tier in tiers for opened in tier}
        self._verdicts = [(names[id(plugin)], plugin) for plugin in self._all(Verdict)]
        for name in self._plugins:
            # Most have nothing to say at the end, and that takes no time.
            session.timings.plugins[name, CLOSING] += 0.0
        self._enqueued = self._all(GroupEnqueueable)
        self._may_reclaim = self._all(QueueMayReclaim)
        self._starving = self._by_tier(GroupStarving)
        self._preemptable = self._by_tier(Preemptable)
        self._reclaimable = self._by_tier(Reclaimable)
        self._votes_pipelined = self._by_tier(GroupPipelined)
        self._subgroup_pipelined = self._by_tier(SubgroupPipelined)
        self._votes_enqueue = self._by_tier(GroupEnqueueable)
        self._masks: dict[tuple[object, ...], Flags | None] = {}
        self._preferring: dict[tuple[int, int, str, int, bool], bool] = {}
        self.filters_settled = all(_is_by_constraints(plugin) for plugin in self._filters)
        self._scores_settled = all(_is_by_constraints(plugin) for plugin in self._scores)

    def unfit_after(self, error: Exception) -> Unfit:
        """What an error in a plugin means for the group it was asked about."""
        failure = self.failure_after(error)
        failure = self.failures.setdefault((failure.plugin, failure.text), failure)
        return Unfit(Reason.PLUGIN_FAILED, failure.sentence)

    def failure_after(self, error: BaseException) -> PluginFailure:
        """Whose failure an error is. Raises one that came from no plugin."""
        name = culprit(error.__traceback__, self._plugins)
        if name is None:
            raise error
        return failure_of(name, error)

    # Orders: the first plugin that sees a difference decides; age and name break ties. One that fails sees none.

    def group_key(self, state: GroupState) -> tuple[object, ...]:
        row = state.group.row
        try:
            return (*(plugin.group_key(state) for plugin in self._group_order), row.created, row.key)
        except Exception as error:
            self.unfit_after(error)
            keys = [self._or_else(0.0, plugin.group_key, state) for plugin in self._group_order]
            return (*keys, row.created, row.key)

    def subgroup_key(self, state: GroupState, subgroup: int) -> tuple[float, ...]:
        return tuple(plugin.subgroup_key(state, subgroup) for plugin in self._subgroup_order)

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        try:
            return (*(plugin.queue_key(queue) for plugin in self._queue_order), queue.created, queue.name)
        except Exception as error:
            self.unfit_after(error)
            neutral: tuple[float, ...] = (0.0,)
            keys = [self._or_else(neutral, plugin.queue_key, queue) for plugin in self._queue_order]
            return (*keys, queue.created, queue.name)

    def pods_in_order(self, group: Group, positions: Ints) -> Ints:
        """`positions` (ascending: the default pod order) in the order the plugins want."""
        keys = [plugin.pod_keys(group)[positions] for plugin in reversed(self._pod_order)]
        return positions[np.lexsort(keys)] if keys else positions

    def victims_in_order(self, residents: Sequence[Resident], contender: Contender) -> list[Resident]:
        """The least important first: the reverse of the orders of queues, groups and pods; age of groups aside."""
        keys: dict[int, tuple[object, ...]] = {}
        columns: dict[int, list[Ints]] = {}
        for resident in residents:
            state = resident.state
            if id(state) not in keys:
                ranks = tuple(plugin.group_key(state) for plugin in self._group_order)
                nearness = tuple(
                    -plugin.victim_queue_key(state.queue, contender.state.queue) for plugin in self._victim_queue_order
                )
                keys[id(state)] = (nearness, self.queue_key(state.queue), ranks)
                columns[id(state)] = [plugin.pod_keys(state.group) for plugin in self._pod_order]
        return sorted(
            residents,
            key=lambda resident: (
                *keys[id(resident.state)],
                *(int(column[resident.position]) for column in columns[id(resident.state)]),
                resident.pod.order,
            ),
            reverse=True,
        )

    # Victims: inside a tier what all plugins allow; a tier that allows nobody leaves it to the next one.

    def preemptable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident]:
        tiers = [[plugin.preemptable for plugin in tier] for tier in self._preemptable]
        return _allowed_by(tiers, contender, candidates)

    def reclaimable(self, contender: Contender, candidates: Sequence[Resident]) -> list[Resident]:
        tiers = [[plugin.reclaimable for plugin in tier] for tier in self._reclaimable]
        return _allowed_by(tiers, contender, candidates)

    # Groups: all must agree; the first "no" is the answer.

    def group_valid(self, state: GroupState) -> Unfit | None:
        for plugin in self._valid:
            unfit = plugin.group_valid(state)
            if unfit is not None:
                return unfit
        return None

    def group_ready(self, state: GroupState) -> bool:
        return all(plugin.group_ready(state) for plugin in self._ready)

    def pods_missing(self, state: GroupState, role: int) -> int:
        return max([1, *(plugin.pods_missing(state, role) for plugin in self._ready)])

    def subgroup_ready(self, state: GroupState, subgroup: int) -> bool:
        return all(plugin.subgroup_ready(state, subgroup) for plugin in self._subgroup_ready)

    def subgroup_missing(self, state: GroupState, subgroup: int) -> int:
        return max([1, *(plugin.subgroup_missing(state, subgroup) for plugin in self._subgroup_ready)])

    def group_starving(self, state: GroupState) -> bool:
        """The first tier with an opinion decides, and there all must agree."""
        for tier in self._starving:
            if tier:
                return all(plugin.group_starving(state) for plugin in tier)
        return False

    # Votes: any rejection ends it; a tier with a permission and no rejection ends it; all abstaining means yes.

    def group_pipelined(self, state: GroupState) -> bool:
        return _agreed([plugin.group_pipelined(state) for plugin in tier] for tier in self._votes_pipelined)

    def subgroup_pipelined(self, state: GroupState, subgroup: int) -> bool:
        votes = ([plugin.subgroup_pipelined(state, subgroup) for plugin in tier] for tier in self._subgroup_pipelined)
        return _agreed(votes)

    def group_enqueueable(self, state: GroupState) -> list[Unfit] | None:
        """None when the group may enter, else what was said against it."""
        for tier in self._votes_enqueue:
            permitted = False
            for plugin in tier:
                vote, unfit = plugin.group_enqueueable(state)
                if vote is Vote.REJECT:
                    return [unfit] if unfit is not None else []
                permitted = permitted or vote is Vote.PERMIT
            if permitted:
                return None
        return None

    def group_enqueued(self, state: GroupState) -> None:
        for plugin in self._enqueued:
            plugin.group_enqueued(state)

    # Queues: one plugin is enough to call a queue overused; room is what every plugin grants.

    def queue_overused(self, queue: Queue) -> bool:
        try:
            return any(plugin.queue_overused(queue) for plugin in self._overused)
        except Exception as error:
            self.unfit_after(error)
            return True

    def queue_room(self, state: GroupState, shape: int, wanted: int) -> tuple[int, Unfit | None]:
        """How many may be placed, and the first objection to more."""
        objection: Unfit | None = None
        for plugin in self._room:
            room, unfit = plugin.queue_room(state, shape, wanted)
            wanted = min(wanted, room)
            objection = objection or unfit
        return wanted, objection

    def may_reclaim(self, state: GroupState, shape: int) -> bool:
        return all(plugin.may_reclaim(state, shape) for plugin in self._may_reclaim)

    # Nodes: a node must pass every filter; scores add up.

    def refusals(self, of: PodClass) -> list[Refusal]:
        return [refusal for refusals in self.refusals_by_filter(of) for refusal in refusals]

    def refusals_by_filter(self, of: PodClass) -> Iterator[Sequence[Refusal]]:
        return (plugin.refusals(of) for plugin in self._filters)

    def ruled_out(self, of: PodClass) -> Flags:
        """Nodes that are refused whoever may leave them."""
        found: Flags = np.zeros(len(self._session.snapshot.nodes), dtype=bool)
        for refusal in self.refusals(of):
            if refusal.final:
                found |= refusal.nodes
        return found

    def node_mask(self, of: PodClass) -> Flags | None:
        """Nodes that pass all filters; None when all do."""
        constraints = self._session.constraints(of)
        # What follows from the pods on nodes changes as pods are placed; all else about a class is settled.
        if constraints.follows_pods or self._session.is_fickle(of) or not self.filters_settled:
            return self._mask(of)
        key = (id(constraints), of.queue, of.claims)
        if key not in self._masks:
            self._masks[key] = self._mask(of)
        return self._masks[key]

    def node_mask_now(self, of: PodClass) -> Flags | None:
        """Those of them that need nobody to leave first."""
        mask = self.node_mask(of)
        for plugin in self._filters if self._session.has_later else ():
            later = plugin.not_yet(of)
            if later is not None:
                mask = ~later if mask is None else mask & ~later
        return mask

    def most_per_node(self, of: PodClass, most: int) -> int:
        limits = (plugin.most_per_node(of) for plugin in self._filters)
        return min([most, *(limit for limit in limits if limit is not None)])

    def has_preferences(self, of: PodClass) -> bool:
        if not self._scores_settled:
            return self._is_preferred(of)
        key = (id(self._session.constraints(of)), of.kin, of.queue, of.tag, of.family == NO_FAMILY)
        if key not in self._preferring:
            self._preferring[key] = self._is_preferred(of)
        return self._preferring[key]

    def one_by_one(self, of: PodClass) -> bool:
        """Whether placing one pod of the class may change where the next one may or would like to go."""
        if not self.filters_settled or self._session.is_fickle(of):
            return True
        return not self._scores_settled and self.has_preferences(of)

    def is_followed(self, of: PodClass) -> bool:
        """Whether placing one pod of the class changes where the next one would like to go, in a way that is known."""
        return of.family != NO_FAMILY and self.has_preferences(of)

    def following(self, of: PodClass, candidates: Ints) -> Following | None:
        """The preference of such a class, where one plugin alone has any and knows how it changes."""
        try:
            preferring = [plugin for plugin in self._scores if plugin.has_preference(of)]
            return preferring[0].following(of, candidates) if len(preferring) == 1 else None
        except Exception as error:
            self._pass_over(error)
            return self.following(of, candidates)

    def class_score(self, of: PodClass, candidates: Ints | None) -> ClassScore:
        """The score of a class; `candidates` may be None where no plugin has a preference."""
        try:
            pairs = [score for plugin in self._scores if (score := plugin.pair_score(of.shape)) is not None]
            standing = (plugin.standing_score(of) for plugin in self._scores)
            pairs += [Standing(points) for points in standing if points is not None]
            if candidates is None or not self.has_preferences(of):
                return ClassScore(pairs, None, None, self.unfit_after)
            fixed = [plugin.preference(of, candidates) for plugin in self._scores if plugin.has_preference(of)]
            return ClassScore(pairs, candidates, np.sum(fixed, axis=0), self.unfit_after)
        except Exception as error:
            self._pass_over(error)
            return self.class_score(of, candidates)

    def verdict(self, state: GroupState) -> bool | None:
        try:
            for name, plugin in self._verdicts:
                answer = self._timed_verdict(name, plugin, state)
                if answer is not None:
                    return bool(answer)
        except Exception as error:
            self.unfit_after(error)
        return None

    def _timed_verdict(self, name: str, plugin: Verdict, state: GroupState) -> bool | None:
        timings = self._session.timings
        started = timings.now()
        answer = plugin.verdict(state)
        timings.plugins[name, CLOSING] += timings.now() - started
        return answer

    def queue_books(self, queue: Queue) -> Sequence[Book]:
        """Of the first plugin that keeps any for the queue."""
        for plugin in self._all(QueueBooks):
            try:
                books = plugin.queue_books(queue)
            except (*FAILURES, PluginLost) as error:
                log.warning("books of a scheduler plugin left out", plugin=type(plugin).__name__, error=error)
                continue
            if books:
                return books
        return ()

    def figures(self) -> Iterator[Figure]:
        for plugin in self._all(Measured):
            try:
                told = list(plugin.figures())
            except (*FAILURES, PluginLost) as error:
                log.warning("figures of a scheduler plugin left out", plugin=type(plugin).__name__, error=error)
                continue
            yield from told

    def _or_else(self, default: A, ask: Callable[[B], A], about: B) -> A:
        try:
            return ask(about)
        except Exception as error:
            self.unfit_after(error)
            return default

    def _is_preferred(self, of: PodClass) -> bool:
        try:
            return any(plugin.has_preference(of) for plugin in self._scores)
        except Exception as error:
            self._pass_over(error)
            return self._is_preferred(of)

    def _pass_over(self, error: Exception) -> None:
        """A node is found without the plugin that fails to like any."""
        others = [plugin for plugin in self._scores if not self._is_blamed(plugin, error)]
        if len(others) == len(self._scores):
            raise error
        self._scores = others
        self._preferring.clear()

    def _is_blamed(self, plugin: object, error: Exception) -> bool:
        self.unfit_after(error)
        return self._plugins[culprit(error.__traceback__, self._plugins) or ""] is plugin

    def _mask(self, of: PodClass) -> Flags | None:
        timings = self._session.timings
        started = timings.now()
        refusals = self.refusals(of)
        timings.stages[PREDICATE] += timings.now() - started
        return ~np.logical_or.reduce([refusal.nodes for refusal in refusals]) if refusals else None

    def _all(self, point: type[P]) -> list[P]:
        return [plugin for tier in self._by_tier(point) for plugin in tier]

    def _by_tier(self, point: type[P]) -> list[list[P]]:
        return [
            [
                opened.plugin
                for opened in tier
                if isinstance(opened.plugin, point) and getattr(point, "switch") not in opened.off  # noqa: B009
            ]
            for tier in self._tiers
        ]


def _is_by_constraints(plugin: object) -> bool:
    return isinstance(plugin, SchedulerPlugin) and plugin.BY_CONSTRAINTS


def _agreed(votes: Iterable[Sequence[Vote]]) -> bool:
    """From the votes of each tier; a tier is not asked once an earlier one has settled it."""
    for tier in votes:
        if Vote.REJECT in tier:
            return False
        if Vote.PERMIT in tier:
            return True
    return True


Filter = Callable[[Contender, Sequence[Resident]], "list[Resident] | None"]


def _allowed_by(
    tiers: Sequence[Sequence[Filter]], contender: Contender, candidates: Sequence[Resident]
) -> list[Resident]:
    for tier in tiers:
        allowed: list[Resident] | None = None
        for plugin in tier:
            answer = plugin(contender, candidates)
            if answer is not None:
                among = {id(resident) for resident in answer}
                start = candidates if allowed is None else allowed
                allowed = [resident for resident in start if id(resident) in among]
        if allowed:
            return allowed
    return []


_ALL = slice(None)


class ClassScore:
    """The summed score of one class of pods; `fixed` holds the preferences over the candidate nodes, where any."""

    def __init__(
        self,
        pairs: list[PairScore],
        candidates: Ints | None,
        fixed: Floats | None,
        forgive: Callable[[Exception], object],
    ) -> None:
        self._pairs = pairs
        self._forgive = forgive  # notes an error of a plugin, raises any other
        self._candidates = candidates
        self._fixed = fixed

    @property
    def relative(self) -> bool:
        """Whether the score depends on which nodes are candidates, so that it changes when one fills up."""
        return self._fixed is not None

    def __call__(self, lines: Ints, placed: Ints) -> Floats:
        total = self._sum(lines, placed, len(lines))
        if self._fixed is None or self._candidates is None:
            return total
        return total + self._fixed[np.searchsorted(self._candidates, lines)]

    def best(self, open_lines: OpenLines, nodes: int) -> int | None:
        """The node for a single pod: the highest score among the open ones, the lowest line among equals."""
        only = self._pairs[0] if len(self._pairs) == 1 else None
        line = best_line(only, open_lines) if self._fixed is None and isinstance(only, Bounded) else None
        return line if line is not None else self._best_of_all(open_lines(_ALL), nodes)

    def _best_of_all(self, open_: Flags | None, nodes: int) -> int | None:
        if not nodes or (open_ is not None and not open_.any()):
            return None
        total = self._sum(None, 0, nodes)
        if self._fixed is not None and self._candidates is not None:
            return int(self._candidates[(total[self._candidates] + self._fixed).argmax()])
        return int(total.argmax() if open_ is None else np.where(open_, total, -np.inf).argmax())

    def _sum(self, lines: Ints | None, placed: Ints | int, count: int) -> Floats:
        # Always in the same order: sums of floats that differ in the last bit would break ties differently.
        if not self._pairs:
            return np.zeros(count)
        try:
            total = self._pairs[0](lines, placed)
            for pair in self._pairs[1:]:
                total = total + pair(lines, placed)
            return total
        except Exception as error:
            self._forgive(error)
            self._pairs = [pair for pair in self._pairs if self._works(pair, lines, placed)]
            return self._sum(lines, placed, count)

    def _works(self, pair: PairScore, lines: Ints | None, placed: Ints | int) -> bool:
        try:
            pair(lines, placed)
        except Exception as error:
            self._forgive(error)
            return False
        return True
