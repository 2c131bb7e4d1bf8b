"""What objects should say of a plan: statuses of groups and queues, conditions of pods, events.

Kept as "what should be there", so that a newer wish replaces an older one that has not been written yet, and nothing is
written that is there already. What fails is tried again later and later.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from hekla.api.kinds import POD, POD_GROUP, QUEUE
from hekla.api.meta import timestamp
from hekla.api.scheduling import PodGroupCondition, PodGroupPhase
from hekla.client.recorder import WARNING, Recorder
from hekla.client.rest import Client, PatchStyle
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.errors import ApiError, Disconnected, NotFound
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.groupstatus import group_status, is_said, shown_amounts, waiting_annotations
from hekla.scheduler.pace import Pace
from hekla.scheduler.plan import Announcement, GroupOutcome, Plan, QueueOutcome
from hekla.scheduler.references import group_reference, pod_reference
from hekla.scheduler.rows import Condition, Pod, PodGroup

log = get_logger("scheduler")

_REMEMBERED_EVENTS = 10_000
_SAME_EVENT_SECONDS = 60.0
_ERROR = "SchedulerError"
_PATIENCE = 30  # periods after which is told what was still changing until then
_LOSS_PERIODS = 0.75  # after which is told what a gang has lost: pods leave in a second or more, and come in less
_PLACED = (PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN, PodGroupPhase.COMPLETED)
_READY = "Scheduled"  # that a group is ready is news once, however long it runs


@dataclass(frozen=True, slots=True)
class _GroupWish:
    outcome: GroupOutcome
    cycle_id: str
    due: float = 0.0  # not to be written before


@dataclass(frozen=True, slots=True)
class _PodWish:
    pod: Pod
    condition: Condition


@dataclass(frozen=True, slots=True)
class _EventWish:
    row: PodGroup
    announcement: Announcement
    due: float  # not to be told before


@dataclass(frozen=True, slots=True)
class _FillingWish:
    """What to say of a gang that lacks pods, unless more of them come meanwhile."""

    outcome: GroupOutcome
    cycle_id: str
    since: float  # when the first pods of it were there
    grown: float  # when it had fewer pods last


_Wish = _GroupWish | _PodWish | _EventWish | _FillingWish | QueueOutcome


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
        self._period = period
        self._loss_seconds = period * _LOSS_PERIODS
        self._in_flight = in_flight
        self._wake = wake
        # What has only to be told must not keep the server from what somebody waits for, bindings above all. Fewer at a
        # time would cost more than they save where many go in one request.
        self._due: WorkQueue[tuple[str, str]] = WorkQueue(most_behind=max(1, in_flight // 4))
        self._wishes: dict[tuple[str, str], _Wish] = {}
        self._held: dict[str, QueueOutcome] = {}  # what each queue held at the end of the last cycle
        self._pace = Pace(clock, period)
        self._told: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._in_flight):
                    tasks.create_task(self._write_for_ever())
        finally:
            self._due.close()

    def take(self, plan: Plan) -> None:
        """Have written what a plan says of groups and queues; the cache has taken its placements already."""
        for outcome in plan.groups:
            self._wish_group(outcome, plan.cycle_id)
        self._cache.settle(plan)
        self._held = {queue.name: queue for queue in plan.queues}
        for queue in plan.queues:
            self._wish_queue(queue)

    def complain(self, pod: Pod, message: str) -> None:
        """Have the pod say why it could not be bound."""
        self._wish(("pod", pod.uid), _PodWish(pod, Condition(_ERROR, message)))

    def withdraw(self, pod: Pod) -> None:
        """Nothing that was to be said of the pod is to be said any more."""
        self._wishes.pop(("pod", pod.uid), None)

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

    async def _write(self, key: tuple[str, str]) -> None:
        wish = self._wishes.get(key)
        if wish is None:
            return
        if isinstance(wish, _GroupWish | _EventWish) and wish.due > self._clock.monotonic():
            # It has come in the place of something that should have been written earlier, or has been withdrawn.
            self._due.add_after(key, wish.due - self._clock.monotonic())
            return
        reworded = isinstance(wish, _PodWish)
        try:
            if isinstance(wish, _GroupWish):
                reworded = await self._write_group(wish)
            elif isinstance(wish, _PodWish):
                await self._write_pod(wish)
            elif isinstance(wish, _EventWish):
                self._complain_of_group(wish)
            elif isinstance(wish, _FillingWish):
                self._end_filling(key, wish)
            else:
                await self._write_queue(wish)
            self._pace.note(key, reworded=reworded)
        except NotFound:
            self._pace.forget(key)
        if self._wishes.get(key) is wish:
            del self._wishes[key]

    def _wish(self, key: tuple[str, str], wish: _Wish, *, after: float = 0.0, ahead: bool = False) -> None:
        """Have something written in `after` seconds, or earlier if that was already arranged."""
        self._wishes[key] = wish
        self._due.add_after(key, after, ahead=ahead)

    def _wish_group(self, outcome: GroupOutcome, cycle_id: str) -> None:
        row = self._cache.group(outcome.group.row.key)
        if row is None or row.uid != outcome.group.row.uid:
            return
        filling = ("filling", row.uid)
        if outcome.filling and row.status.get("phase") == outcome.phase:
            self._wishes.pop(("event", row.uid), None)
            self._wishes.pop(("group", row.uid), None)
            for pod, _ in outcome.pod_conditions:
                self.withdraw(pod)
            self._wish_filling(filling, outcome, cycle_id)
            return
        self._wishes.pop(filling, None)
        due, patience = 0.0, self._period
        if _is_back(row, outcome):
            # Pods of a gang that was placed before are on their way again: next it says that it runs.
            due = self._due_of(_is_back, row, after=_PATIENCE * self._period)
        elif _is_loss(row, outcome):
            # Of a gang that lost pods, or has ended, its owner makes something else at once, as a rule: what became of
            # it is told a while later, as it is then.
            due = self._due_of(_is_loss, row, after=self._loss_seconds)
            patience = max(0.0, due - self._clock.monotonic())
        self._say(row, outcome, cycle_id, patience=patience, due=due)

    def _wish_filling(self, key: tuple[str, str], outcome: GroupOutcome, cycle_id: str) -> None:
        """A gang that is being made is not complained about, pod by pod, before it has stopped growing."""
        since = grown = self._clock.monotonic()
        earlier = self._wishes.get(key)
        if isinstance(earlier, _FillingWish):
            since = earlier.since
            if len(earlier.outcome.group.pods) == len(outcome.group.pods):
                grown = earlier.grown
        self._wish(key, _FillingWish(outcome, cycle_id, since, grown), after=self._period)

    def _end_filling(self, key: tuple[str, str], wish: _FillingWish) -> None:
        group, now = wish.outcome.group, self._clock.monotonic()
        row = self._cache.group(group.row.key)
        if row is None or row.uid != group.row.uid:
            return
        if self._cache.pods_in(group.row.key) != len(group.pods):
            wish = replace(wish, grown=now)
        quiet = min(wish.grown, wish.since + (_PATIENCE - 1) * self._period) + self._period
        if now < quiet:
            self._wish(key, replace(wish), after=quiet - now)
        else:
            self._say(row, wish.outcome, wish.cycle_id, patience=0.0)

    def _say(self, row: PodGroup, outcome: GroupOutcome, cycle_id: str, *, patience: float, due: float = 0.0) -> None:
        self._wish_events(row, outcome, patience)
        key = ("group", row.uid)
        outcome = self._with_what_is_awaited(key, outcome)
        status, annotations = group_status(row, outcome, cycle_id, ""), waiting_annotations(row, outcome)
        if status is None and annotations is None:
            self._wishes.pop(key, None)
        else:
            # For this one somebody waits: pods are made once it is written. Unless they are there, and being bound.
            enters = outcome.phase is PodGroupPhase.INQUEUE and row.phase is not PodGroupPhase.INQUEUE
            awaited = enters and not outcome.settling
            wish = _GroupWish(outcome, cycle_id, due)
            after = self._group_delay(row, wish, status) if status is not None else self._words_delay(row, outcome)
            self._wish(key, wish, after=after, ahead=awaited)
        for pod, condition in outcome.pod_conditions:
            condition = self._with_promised_node(pod, condition)
            if _says(pod.condition, condition):
                self.withdraw(pod)
            else:
                self._wish_pod(pod, condition, patience)

    def _with_what_is_awaited(self, key: tuple[str, str], outcome: GroupOutcome) -> GroupOutcome:
        """What a gang on its way waits for only the cycle knows that placed it: no later one unsays it."""
        earlier = self._wishes.get(key)
        if not isinstance(earlier, _GroupWish) or not earlier.outcome.settling or earlier.outcome.waiting is None:
            return outcome
        if not outcome.settling or outcome.waiting is not None:
            return outcome
        return msgspec.structs.replace(outcome, waiting=earlier.outcome.waiting)

    def _with_promised_node(self, pod: Pod, condition: Condition) -> Condition:
        """For which node others left is not taken back by what a later cycle finds."""
        earlier = self._wishes.get(("pod", pod.uid))
        if isinstance(earlier, _PodWish) and earlier.condition.nominated and not condition.nominated:
            return replace(condition, nominated=earlier.condition.nominated)
        return condition

    def _wish_pod(self, pod: Pod, condition: Condition, patience: float) -> None:
        # That a pod waits is worth saying once it has waited: most go within the second. That others leave for it is
        # news at once.
        key = ("pod", pod.uid)
        after = 0.0 if condition.nominated else max(patience, self._pace.until_words(key))
        self._wish(key, _PodWish(pod, condition), after=after)

    def _due_of(self, is_such: Callable[[PodGroup, GroupOutcome], bool], row: PodGroup, *, after: float) -> float:
        """When to write what may change until then; cycles that find such a thing again do not put it off."""
        earlier = self._wishes.get(("group", row.uid))
        if isinstance(earlier, _GroupWish) and is_such(row, earlier.outcome):
            return earlier.due
        return self._clock.monotonic() + after

    def _group_delay(self, row: PodGroup, wish: _GroupWish, status: Mapping[str, Any]) -> float:
        """A new phase and a new verdict are news, but for losses; counts can wait."""
        outcome = wish.outcome
        if row.status.get("phase") != outcome.phase:
            return max(0.0, wish.due - self._clock.monotonic())
        if outcome.settling and outcome.waiting is None:
            # Its pods are on their way to their nodes; once they are there, this is told together with the phase.
            return _PATIENCE * self._period
        wanted, conditions = outcome.condition, list(row.status.get("conditions") or ())
        if wanted is None or outcome.settling or is_said(conditions, wanted):
            return self._pace.until_counts(("group", row.uid))
        # Other words for what was said before are said when they have held for a while. Counts are of its own pods.
        if any(condition.get("type") == wanted.type for condition in conditions):
            counted = len(status) > 1  # beside the condition
            return self._period if counted else max(self._period, self._words_delay(row, outcome))
        # That a gang lacks pods of which none waits is a loss, too.
        waits = outcome.waiting is not None and outcome.waiting.reason
        return 0.0 if waits or wanted.type is PodGroupCondition.SCHEDULED else self._loss_seconds

    def _words_delay(self, row: PodGroup, outcome: GroupOutcome) -> float:
        """Of a group that has only other words to say; a new reason is more than that."""
        key = ("group", row.uid)
        same = outcome.waiting is not None and outcome.waiting.reason == row.waiting[0]
        return self._pace.until_words(key) if same else self._pace.until_counts(key)

    def _wish_events(self, row: PodGroup, outcome: GroupOutcome, patience: float) -> None:
        complaint, due = ("event", row.uid), self._clock.monotonic() + patience
        earlier = self._wishes.pop(complaint, None)
        if isinstance(earlier, _EventWish):
            due = min(due, earlier.due)
        for told in outcome.announcements:
            if told.type == WARNING:
                self._wish(complaint, _EventWish(row, told, due), after=patience)
            else:
                self._tell(row, told)

    def _complain_of_group(self, wish: _EventWish) -> None:
        row = self._cache.group(wish.row.key)
        if row is not None and row.uid == wish.row.uid:
            self._tell(row, wish.announcement)

    def _wish_queue(self, outcome: QueueOutcome) -> None:
        key, queue = ("queue", outcome.name), self._cache.queue(outcome.name)
        if queue is None or dict(queue.allocated or {}) == shown_amounts(outcome):
            # What waits to be written is out of date: it is as it was again.
            self._wishes.pop(key, None)
        else:
            self._wish(key, outcome, after=self._pace.until_counts(key))

    async def _write_group(self, wish: _GroupWish) -> bool:
        """Whether it came to nothing but other words."""
        row = self._cache.group(wish.outcome.group.row.key)
        if row is None or row.uid != wish.outcome.group.row.uid:
            return False
        status = group_status(row, wish.outcome, wish.cycle_id, timestamp(self._clock.now()))
        annotations = waiting_annotations(row, wish.outcome)
        if status is None and annotations is None:
            return False
        # The revision guards what others write into the status: a conflict means look again.
        metadata: dict[str, Any] = {"uid": row.uid, "resourceVersion": str(row.revision)}
        patch = {"metadata": metadata, "status": status or {}}
        if row.tracked_in_vain:
            metadata["managedFields"] = [{}]
        if annotations is not None:
            metadata["annotations"] = annotations
        self._cache.refresh_group(await self._client.patch(POD_GROUP, row.key.name, patch, row.key.namespace))
        return set(status or ()) <= {"conditions"}

    async def _write_pod(self, wish: _PodWish) -> None:
        pod, condition = wish.pod, wish.condition
        known = self._cache.seen_pod(pod.uid)
        if known is None or known.node or _says(known.condition, condition):
            return
        entry = {
            "type": "PodScheduled",
            "status": "False",
            "reason": condition.reason,
            "message": condition.message,
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        status: dict[str, Any] = {"conditions": [entry]}
        if condition.nominated:
            status["nominatedNodeName"] = condition.nominated
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        live = await self._client.patch(
            POD, pod.name, patch, pod.namespace, style=PatchStyle.STRATEGIC, subresource="status"
        )
        self._wake_if(self._cache.refresh_pod(live))
        self._recorder.event(pod_reference(pod), WARNING, "FailedScheduling", condition.message)

    async def _write_queue(self, outcome: QueueOutcome) -> None:
        queue = self._cache.queue(outcome.name)
        wanted = shown_amounts(outcome)
        if queue is None or dict(queue.allocated or {}) == wanted:
            return
        gone = dict.fromkeys(name for name in queue.allocated or {} if name not in wanted)
        patch = {"metadata": {"uid": queue.uid}, "status": {"allocated": {**gone, **wanted}}}
        live = await self._client.patch(QUEUE, queue.name, patch, subresource="status")
        self._wake_if(self._cache.refresh_queue(live))
        # A cycle may have found otherwise while this was on its way.
        self._pace.note(("queue", outcome.name))
        self._wish_queue(self._held.get(outcome.name, outcome))

    def _tell(self, row: PodGroup, told: Announcement) -> None:
        """Say it once; a complaint again when it changed, or after a while."""
        key, now = (row.uid, told.type, told.reason), self._clock.monotonic()
        known = self._told.get(key)
        repeated = known is not None and known[0] == told.message
        if known is not None and repeated and (told.reason == _READY or now - known[1] < _SAME_EVENT_SECONDS):
            return
        self._told[key] = (told.message, now)
        self._told.move_to_end(key)
        if len(self._told) > _REMEMBERED_EVENTS:
            self._told.popitem(last=False)
        self._recorder.event(group_reference(row), told.type, told.reason, told.message)

    def _wake_if(self, news: bool) -> None:
        """Others' changes may come with the answer to a write of ours; from the watch they are no news then."""
        if news:
            self._wake()


def _is_back(row: PodGroup, outcome: GroupOutcome) -> bool:
    """Whether a gang that fell to Pending is let in again with its pods being bound already."""
    enters = row.phase is PodGroupPhase.PENDING and outcome.phase is PodGroupPhase.INQUEUE
    conditions = row.status.get("conditions") or ()
    return enters and outcome.settling and any(known.get("type") == _READY for known in conditions)


def _is_loss(row: PodGroup, outcome: GroupOutcome) -> bool:
    if outcome.phase is PodGroupPhase.PENDING:
        return row.phase in _PLACED and not outcome.settling
    ended = outcome.phase is PodGroupPhase.COMPLETED and len(outcome.group.pods) > 0
    return ended or outcome.phase is PodGroupPhase.UNKNOWN


def _says(known: Condition | None, wanted: Condition) -> bool:
    """Whether a pod's condition says all of `wanted`; a node named earlier may stay."""
    if known is None or (known.reason, known.message) != (wanted.reason, wanted.message):
        return False
    return not wanted.nominated or known.nominated == wanted.nominated
