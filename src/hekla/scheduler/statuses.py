"""Has written what objects should say of a plan: statuses of groups and queues, conditions of pods, Events.

Kept as "what should be there", so that a newer wish replaces an older one that has not been written yet, and nothing is
written that is there already. What kind of news an outcome is says `changes.py`, when it is written `when.py`, and the
patches are those of `patches.py`; what is here carries that out. What fails is tried again later and later.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TypeVar

from hekla.api.kinds import POD, POD_GROUP, QUEUE
from hekla.api.meta import timestamp
from hekla.api.scheduling import GROUP_STEP
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client, PatchStyle
from hekla.client.workqueue import Urgency, WorkQueue
from hekla.clock import Clock
from hekla.errors import ApiError, Disconnected, NotFound
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.changes import (
    change_of,
    course_of,
    is_awaited,
    is_making_way,
    with_promised_node,
    with_what_is_awaited,
)
from hekla.scheduler.patches import (
    group_patch,
    group_status,
    is_said_by_pod,
    pod_patch,
    queue_patch,
    waiting_annotations,
)
from hekla.scheduler.plan import Announcement, GroupOutcome, Plan, QueueOutcome
from hekla.scheduler.references import group_reference, pod_reference
from hekla.scheduler.rows import Condition, Pod, PodGroup
from hekla.scheduler.when import (
    AT_ONCE,
    NEVER,
    READY,
    Allowance,
    Course,
    Hold,
    Said,
    Timetable,
    Told,
    When,
    is_told_again,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

log = get_logger("scheduler")

_TOLD_AT_A_TIME = 4  # each a request of its own
_REMEMBERED = 20_000  # writes, Events, and gangs that lack pods
_ERROR = "SchedulerError"

_Key = tuple[str, str]  # what kind of wish, and the uid or name of what it is about


@dataclass(frozen=True, slots=True)
class _GroupWish:
    outcome: GroupOutcome
    cycle_id: str
    hold: Hold


@dataclass(frozen=True, slots=True)
class _PodWish:
    pod: Pod
    condition: Condition


@dataclass(frozen=True, slots=True)
class _Complaint:
    row: PodGroup
    announcement: Announcement
    when: When


@dataclass(frozen=True, slots=True)
class _Filling:
    """What to say of a gang that lacks pods, unless more of them come meanwhile."""

    outcome: GroupOutcome
    cycle_id: str
    since: float  # when the first pods of it were there
    grown: float  # when it had other pods last, or some that were leaving


_Wish = _GroupWish | _PodWish | _Complaint | _Filling | QueueOutcome


class Statuses:
    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: Recorder,
        *,
        clock: Clock,
        period: float,
        in_flight: int,
        wake: Callable[[], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._times = Timetable(period)
        # Jobs wait to be let in and have hundreds of writes of their own under way: with few of these among them, their
        # pods would come late.
        self._writers = 4 * in_flight
        self._wake = wake
        # What has only to be told must not keep the server from what somebody waits for, bindings above all.
        self._due: WorkQueue[_Key] = WorkQueue(told_at_a_time=_TOLD_AT_A_TIME)
        self._told_together = max(_TOLD_AT_A_TIME, in_flight // 4)
        self._wishes: dict[_Key, _Wish] = {}
        self._held: dict[str, QueueOutcome] = {}  # what each queue held at the end of the last cycle
        self._filled: OrderedDict[str, int] = OrderedDict()  # pods of gangs that lack some and have stopped growing
        self._said: OrderedDict[_Key, Said] = OrderedDict()
        self._told: OrderedDict[tuple[str, str, str], Told] = OrderedDict()
        self._steps = Allowance()

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._widen_if_joined())
                for _ in range(self._writers):
                    tasks.create_task(self._write_for_ever())
        finally:
            self._due.close()

    def take(self, plan: Plan) -> None:
        """Have written what a plan says of groups and queues; the cache has taken its placements already."""
        for outcome in plan.groups:
            self._take_group(outcome, plan.cycle_id)
        self._cache.settle(plan)
        self._held = {queue.name: queue for queue in plan.queues}
        for queue in plan.queues:
            self._wish_queue(queue)

    def complain(self, pod: Pod, message: str) -> None:
        """Have the pod say why it could not be bound."""
        self._wish(("pod", pod.uid), _PodWish(pod, Condition(_ERROR, message)), AT_ONCE, self._clock.monotonic())

    def withdraw(self, pod: Pod) -> None:
        """Nothing that was to be said of the pod is to be said any more."""
        self._wishes.pop(("pod", pod.uid), None)

    def _take_group(self, outcome: GroupOutcome, cycle_id: str) -> None:
        row = self._as_it_is(outcome.group.row)
        if row is None:
            return
        course = course_of(row, outcome)
        if course == "filling" and self._filled.get(row.uid) == len(outcome.group.pods):
            # What is still to be written of it is not put off by each cycle that finds it as it was.
            course = "filled"
        else:
            self._filled.pop(row.uid, None)
        if course == "filling":
            self._watch_growth(row, outcome, cycle_id)
        else:
            self._wishes.pop(("filling", row.uid), None)
        self._say(row, outcome, cycle_id, course)

    def _watch_growth(self, row: PodGroup, outcome: GroupOutcome, cycle_id: str) -> None:
        """A gang that is being made is not complained about, pod by pod, before it has stopped growing."""
        key = ("filling", row.uid)
        since = grown = now = self._clock.monotonic()
        earlier = self._wishes.get(key)
        if isinstance(earlier, _Filling):
            since = earlier.since
            if earlier.outcome.group.counts == outcome.group.counts and not is_making_way(outcome):
                grown = earlier.grown
        self._wish(key, _Filling(outcome, cycle_id, since, grown), self._times.filling(since, grown), now)

    def _say(self, row: PodGroup, outcome: GroupOutcome, cycle_id: str, course: Course) -> None:
        key, now = ("group", row.uid), self._clock.monotonic()
        earlier = self._wishes.get(key)
        standing = earlier if isinstance(earlier, _GroupWish) else None
        hold = self._times.hold(course, standing.hold if standing is not None else None, now)
        self._say_in_events(row, outcome, hold, now)
        if standing is not None:
            outcome = with_what_is_awaited(outcome, standing.outcome)
        status, annotations = group_status(row, outcome, cycle_id, ""), waiting_annotations(row, outcome)
        change = change_of(row, outcome, status, annotations)
        when = self._times.group(change, hold, self._said.get(key), now)
        urgency = Urgency.AWAITED if change == "phase" and is_awaited(row, outcome) else Urgency.TOLD
        self._wish(key, _GroupWish(outcome, cycle_id, hold), when, now, urgency)
        if outcome.pod_conditions:
            patience = self._times.patience(hold, now)
            for pod, condition in outcome.pod_conditions:
                self._say_of_pod(pod, condition, patience, now)

    def _say_in_events(self, row: PodGroup, outcome: GroupOutcome, hold: Hold, now: float) -> None:
        key = ("event", row.uid)
        earlier = self._wishes.pop(key, None)
        for told in outcome.announcements:
            if told.passing:
                self._tell(row, told, self._steps)
            elif told.type == WARNING:
                when = self._times.complaint(hold, earlier.when if isinstance(earlier, _Complaint) else None, now)
                self._wish(key, _Complaint(row, told, when), when, now)
            elif hold.course != "filling":
                self._tell(row, told)

    def _say_of_pod(self, pod: Pod, condition: Condition, patience: When, now: float) -> None:
        key = ("pod", pod.uid)
        earlier = self._wishes.get(key)
        if isinstance(earlier, _PodWish):
            condition = with_promised_node(condition, earlier.condition)
        if is_said_by_pod(pod.condition, condition):
            self.withdraw(pod)
        else:
            when = self._times.pod(patience, self._said.get(key), promised=bool(condition.nominated))
            self._wish(key, _PodWish(pod, condition), when, now)

    def _wish_queue(self, outcome: QueueOutcome) -> None:
        key, queue = ("queue", outcome.name), self._cache.queue(outcome.name)
        if queue is None or queue_patch(queue, outcome) is None:
            # What waits to be written is out of date: it is as it was again.
            self._wishes.pop(key, None)
        else:
            self._wish(key, outcome, self._times.queue(self._said.get(key)), self._clock.monotonic())

    def _wish(self, key: _Key, wish: _Wish, when: When, now: float, urgency: Urgency = Urgency.TOLD) -> None:
        """Have something written in the place of what was to be written before; at that time, if it is earlier."""
        if when.at == NEVER:
            self._wishes.pop(key, None)
        else:
            self._wishes[key] = wish
            self._due.add_after(key, when.at - now, urgency)

    async def _widen_if_joined(self) -> None:
        """Where many writes go in one request, few at a time would cost more than they save."""
        while True:
            try:
                if await self._client.offers_batches():
                    self._due.widen(self._told_together)
            except (ApiError, Disconnected):
                await asyncio.sleep(self._times.period)
            else:
                return

    async def _write_for_ever(self) -> None:
        while True:
            key = await self._due.get()
            try:
                await self._write(key)
                self._due.forget(key)
            except (ApiError, Disconnected) as error:
                delay = self._due.retry(key)
                log.debug("status not written", what=key[0], error=error, retry=delay)
            finally:
                self._due.done(key)

    async def _write(self, key: _Key) -> None:
        wish = self._wishes.get(key)
        if wish is None:
            return
        early = _not_before(wish) - self._clock.monotonic()
        if early > 0:
            # It has come in the place of something that should have been written earlier, or has been withdrawn.
            self._due.add_after(key, early, Urgency.TOLD)
            return
        try:
            await self._carry_out(key, wish)
        except NotFound:
            self._said.pop(key, None)
        if self._wishes.get(key) is wish:
            del self._wishes[key]

    async def _carry_out(self, key: _Key, wish: _Wish) -> None:
        match wish:
            case _GroupWish():
                await self._write_group(key, wish)
            case _PodWish():
                await self._write_pod(key, wish)
            case _Complaint():
                row = self._as_it_is(wish.row)
                if row is not None:
                    self._tell(row, wish.announcement)
            case _Filling():
                self._look_at_growth(key, wish)
            case QueueOutcome():
                await self._write_queue(key, wish)

    async def _write_group(self, key: _Key, wish: _GroupWish) -> None:
        row = self._as_it_is(wish.outcome.group.row)
        if row is None:
            return
        patch = group_patch(row, wish.outcome, wish.cycle_id, timestamp(self._clock.now()))
        if patch is None:
            return
        self._cache.refresh_group(await self._client.patch(POD_GROUP, row.key.name, patch, row.key.namespace))
        self._note(key, reworded=set(patch["status"]) <= {"conditions"})

    async def _write_pod(self, key: _Key, wish: _PodWish) -> None:
        pod, condition = wish.pod, wish.condition
        known = self._cache.seen_pod(pod.uid)
        if known is None or known.node or is_said_by_pod(known.condition, condition):
            return
        patch = pod_patch(pod, condition, timestamp(self._clock.now()))
        live = await self._client.patch(
            POD, pod.name, patch, pod.namespace, style=PatchStyle.STRATEGIC, subresource="status"
        )
        self._wake_if(self._cache.refresh_pod(live))
        self._note(key, reworded=True)
        self._recorder.event(pod_reference(pod), WARNING, "FailedScheduling", condition.message)

    def _look_at_growth(self, key: _Key, wish: _Filling) -> None:
        row, now = self._as_it_is(wish.outcome.group.row), self._clock.monotonic()
        if row is None:
            return
        if self._cache.pods_in(row.key) != len(wish.outcome.group.pods) or is_making_way(wish.outcome):
            wish = replace(wish, grown=now)
        when = self._times.filling(wish.since, wish.grown)
        if when.at > now:
            self._wish(key, replace(wish), when, now)
        else:
            _remember(self._filled, row.uid, len(wish.outcome.group.pods))
            self._say(row, wish.outcome, wish.cycle_id, "filled")

    async def _write_queue(self, key: _Key, outcome: QueueOutcome) -> None:
        queue = self._cache.queue(outcome.name)
        patch = queue_patch(queue, outcome) if queue is not None else None
        if patch is None:
            return
        live = await self._client.patch(QUEUE, outcome.name, patch, subresource="status")
        self._wake_if(self._cache.refresh_queue(live))
        self._note(key, reworded=False)
        # A cycle may have found otherwise while this was on its way.
        self._wish_queue(self._held.get(outcome.name, outcome))

    def _tell(self, row: PodGroup, told: Announcement, allowance: Allowance | None = None) -> None:
        key, now = (row.uid, told.type, told.reason), self._clock.monotonic()
        is_new = is_told_again(self._told.get(key), told.reason, told.message, now)
        if is_new and (allowance is None or allowance.take(now)):
            _remember(self._told, key, Told(told.message, now))
            if told.type == WARNING:
                # Else it would be the last that is told of a gang that has got beyond it.
                self._told.pop((row.uid, NORMAL, READY), None)
            action = GROUP_STEP if told.passing else ""
            self._recorder.event(group_reference(row), told.type, told.reason, told.message, action=action)

    def _as_it_is(self, row: PodGroup) -> PodGroup | None:
        """The group as it is now; None if it is gone, be there another one by its name or not."""
        known = self._cache.group(row.key)
        return known if known is not None and known.uid == row.uid else None

    def _note(self, key: _Key, *, reworded: bool) -> None:
        said = self._times.said(self._said.get(key), self._clock.monotonic(), reworded=reworded)
        _remember(self._said, key, said)

    def _wake_if(self, news: bool) -> None:
        """Others' changes may come with the answer to a write of ours; from the watch they are no news then."""
        if news:
            self._wake()


def _remember(table: OrderedDict[K, V], key: K, value: V) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > _REMEMBERED:
        table.popitem(last=False)


def _not_before(wish: _Wish) -> float:
    if isinstance(wish, _Complaint):
        return wish.when.at
    return wish.hold.until if isinstance(wish, _GroupWish) else 0.0
