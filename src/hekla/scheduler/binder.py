"""Carries a plan out: bindings, statuses, conditions, events; and tells the cache what failed.

Taking a plan never waits. Bindings go out many at a time; statuses are kept as "what should be there", so that a
newer wish replaces an older one that has not been written yet, and nothing is written that is there already. What
fails is tried again, by the next cycle (bindings) or later and later (statuses).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hekla.api.batches import Binding
from hekla.api.kinds import POD, POD_GROUP, QUEUE
from hekla.api.meta import timestamp
from hekla.api.reasons import MESSAGE_ANNOTATION, REASON_ANNOTATION
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client, PatchStyle
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.errors import ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.metrics import SchedulerMetrics
from hekla.scheduler.plan import Announcement, Eviction, GroupCondition, GroupOutcome, Plan, QueueOutcome
from hekla.scheduler.references import group_reference, pod_reference
from hekla.scheduler.resting import Resting
from hekla.scheduler.rows import Condition, Pod, PodGroup, show_amount
from hekla.scheduler.torn import TornGangs

log = get_logger("scheduler")

_REMEMBERED_EVENTS = 10_000
_REMEMBERED_WRITES = 20_000
_SAME_EVENT_SECONDS = 60.0
_PODS_TOGETHER = 200  # in one request, where small gangs may share one
_EVICT = "Evict"
_DISRUPTION = "preempting to accommodate a higher priority pod"
_ERROR = "SchedulerError"
_READY = "Scheduled"  # that a group is ready is news once, however long it runs


@dataclass(frozen=True, slots=True)
class _GroupWish:
    outcome: GroupOutcome
    cycle_id: str


@dataclass(frozen=True, slots=True)
class _PodWish:
    pod: Pod
    condition: Condition


@dataclass(frozen=True, slots=True)
class _EventWish:
    row: PodGroup
    announcement: Announcement


_Gang = list[tuple[Pod, str]]  # pods that belong together, each with its node
_Wish = _GroupWish | _PodWish | _EventWish | QueueOutcome


class Binder:
    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: Recorder,
        *,
        clock: Clock,
        period: float,
        in_flight: int,
        scheduled_events: int,
        scheduler_name: str,
        torn_seconds: float,
        metrics: SchedulerMetrics | None,
        wake: Callable[[], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._period = period
        self._in_flight = in_flight
        self._scheduled_events = scheduled_events
        self._scheduler_name = scheduler_name
        self._metrics = metrics
        self._wake = wake
        self._bindings: WorkQueue[int] = WorkQueue()
        self._gangs: dict[int, _Gang] = {}
        self._taken = 0
        self._resting = Resting(cache, period=period, wake=wake)
        self._torn = TornGangs(
            client, cache, recorder, patience=torn_seconds, end_rest=lambda pod: self._resting.end(pod.uid)
        )
        self._evictions: WorkQueue[str] = WorkQueue()
        self._leaving: dict[str, Eviction] = {}
        self._statuses: WorkQueue[tuple[str, str]] = WorkQueue()
        self._wishes: dict[tuple[str, str], _Wish] = {}
        self._held: dict[str, QueueOutcome] = {}  # what each queue held at the end of the last cycle
        self._written: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._told: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._torn.run())
                for _ in range(self._in_flight):
                    tasks.create_task(self._bind_for_ever())
                for _ in range(max(1, self._in_flight // 4)):
                    tasks.create_task(self._write_for_ever())
                    tasks.create_task(self._evict_for_ever())
        finally:
            self._bindings.close()
            self._evictions.close()
            self._statuses.close()
            self._resting.close()

    def take(self, plan: Plan, generation: int) -> None:
        """Start carrying out a plan made from the cache as it was at `generation`."""
        for placement in plan.placements:
            if not self._cache.assume(placement, generation):
                log.info("placement overtaken", group=placement.group.name)
                self._wake()
                continue
            if self._metrics is not None:
                self._metrics.assumed(placement)
            gang = list(placement.pairs())
            for pod, _ in gang:
                self._wishes.pop(("pod", pod.uid), None)
            self._taken += 1
            self._gangs[self._taken] = gang
            self._bindings.add(self._taken)
        for eviction in plan.evictions:
            if self._cache.assume_evicted(eviction.pod):
                self._resting.leave(eviction.pod.uid)
                self._leaving[eviction.pod.uid] = eviction
                self._evictions.add(eviction.pod.uid)
                # What the groups make of it is for another cycle to say.
                self._wake()
        for outcome in plan.groups:
            self._wish_group(outcome, plan.cycle_id)
        self._cache.settle(plan)
        self._held = {queue.name: queue for queue in plan.queues}
        for queue in plan.queues:
            self._wish_queue(queue)

    def _wake_if(self, news: bool) -> None:
        """Others' changes may come with the answer to a write of ours; from the watch they are no news then."""
        if news:
            self._wake()

    # Bindings

    async def _bind_for_ever(self) -> None:
        while True:
            numbers = [await self._bindings.get()]
            try:
                numbers += await self._more_gangs(len(self._gangs[numbers[0]]))
                gangs = [self._gangs.pop(number) for number in numbers]
                if len(gangs) == 1 or not await self._bind_together(gangs):
                    for gang in gangs:
                        await self._bind(gang)
            finally:
                for number in numbers:
                    self._bindings.done(number)

    async def _more_gangs(self, pods: int) -> list[int]:
        """Gangs that wait for their turn, to go in the same request where the server takes many."""
        numbers: list[int] = []
        if not len(self._bindings) or not await self._offers_batches():
            return numbers
        while len(self._bindings) and pods < _PODS_TOGETHER:
            numbers.append(await self._bindings.get())
            pods += len(self._gangs[numbers[-1]])
        return numbers

    async def _offers_batches(self) -> bool:
        try:
            return await self._client.offers_batches()
        except (ApiError, Disconnected):
            return False

    async def _bind_together(self, gangs: list[_Gang]) -> bool:
        """Place several gangs at once. False when nothing came of it: then each goes alone."""
        pods = [pod for gang in gangs for pod, _ in gang]
        if any(self._torn.needs_rehearsal([pod for pod, _ in gang]) for gang in gangs):
            return False
        bindings = [_binding(pod, node) for gang in gangs for pod, node in gang]
        started = self._clock.monotonic()
        try:
            answers = await self._client.bind_many(bindings, all_or_nothing=True)
        except Disconnected as error:
            log.info("bind answers lost, looking again", pods=len(pods), error=error)
            for gang in gangs:
                await self._answers_lost(gang, error)
            return True
        if any(answers):
            return False
        for gang in gangs:
            if self._metrics is not None:
                self._metrics.binding([pod.created for pod, _ in gang])
            await self._answered(gang, [None] * len(gang), started)
        return True

    async def _bind(self, gang: _Gang) -> None:
        """Place pods that belong together: all of them or none, where the server can promise that."""
        bindings = [_binding(pod, node) for pod, node in gang]
        pods, started = [pod for pod, _ in gang], self._clock.monotonic()
        if self._metrics is not None:
            self._metrics.binding([pod.created for pod in pods])
        try:
            if self._torn.needs_rehearsal(pods) and not await self._would_all_be_bound(gang, bindings):
                return
            answers: list[ApiError | None] = await self._client.bind_many(bindings, all_or_nothing=True)
        except Disconnected as error:
            log.info("bind answers lost, looking again", pods=len(gang), error=error)
            await self._answers_lost(gang, error)
            return
        await self._answered(gang, answers, started)

    async def _answers_lost(self, gang: _Gang, error: Disconnected) -> None:
        pods = [pod for pod, _ in gang]
        unplaced = {pod.uid for pod in pods if not await self._is_placed(pod)}
        self._resting.begin(unplaced)
        self._torn.note(pods, [error if pod.uid in unplaced else None for pod in pods])

    async def _answered(self, gang: _Gang, answers: list[ApiError | None], started: float) -> None:
        pods = [pod for pod, _ in gang]
        announce = len(gang) <= self._scheduled_events
        for (pod, node), answer in zip(gang, answers):
            if answer is None:
                self._bound(pod, node, announce=announce)
        await self._take_refusals(gang, answers)
        if self._metrics is not None:
            bound = [pod.created for pod, answer in zip(pods, answers) if answer is None]
            self._metrics.answered(bound, len(pods) - len(bound), self._clock.monotonic() - started)
        self._torn.note(pods, answers)

    async def _would_all_be_bound(self, gang: _Gang, bindings: list[Binding]) -> bool:
        """Ask for everything without doing anything; where something is refused the whole gang rests."""
        answers = await self._client.rehearse_bindings(bindings)
        if not any(answers):
            return True
        culprit = next(f"{pod.name}: {answer}" for (pod, _), answer in zip(gang, answers) if answer is not None)
        held_back = [pod for (pod, _), answer in zip(gang, answers) if answer is None]
        await self._take_refusals(gang, answers, also=held_back)
        for pod in held_back:
            self._wish(("pod", pod.uid), _PodWish(pod, Condition(_ERROR, f"the gang is not bound without {culprit}")))
        return False

    async def _take_refusals(self, gang: _Gang, answers: Sequence[ApiError | None], also: Sequence[Pod] = ()) -> None:
        """What was refused is left alone for a while, all of it together, and with it what `also` has to wait."""
        unplaced = [
            pod
            for (pod, node), answer in zip(gang, answers)
            if answer is not None and await self._is_refused(pod, node, answer)
        ]
        self._resting.begin(pod.uid for pod in (*unplaced, *also))

    def _bound(self, pod: Pod, node: str, *, announce: bool) -> None:
        self._resting.succeeded(pod.uid)
        log.debug("bound", pod=pod.name, namespace=pod.namespace, node=node)
        if announce:
            text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
            self._recorder.event(pod_reference(pod), NORMAL, "Scheduled", text)

    async def _is_refused(self, pod: Pod, node: str, error: ApiError) -> bool:
        if isinstance(error, Conflict | NotFound):
            log.info("bind refused", pod=pod.name, node=node, error=error)
            return not await self._is_placed(pod)
        log.warning("bind failed", pod=pod.name, node=node, error=error)
        condition = Condition(_ERROR, f"failed to bind to node {node}: {error}")
        self._wish(("pod", pod.uid), _PodWish(pod, condition))
        return True

    async def _is_placed(self, pod: Pod) -> bool:
        """The binding may or may not have happened: what the server says now is what holds."""
        try:
            live = await self._client.find(POD, pod.name, pod.namespace)
        except (ApiError, Disconnected):
            return False
        if live is None or live["metadata"].get("uid") != pod.uid:
            self._wake_if(self._cache.remove_pod(pod.uid))
            return False
        if not (live.get("spec") or {}).get("nodeName"):
            return False
        self._wake_if(self._cache.refresh_pod(live))
        return True

    # Evictions

    async def _evict_for_ever(self) -> None:
        while True:
            uid = await self._evictions.get()
            try:
                await self._evict(self._leaving.pop(uid))
            finally:
                self._evictions.done(uid)

    async def _evict(self, eviction: Eviction) -> None:
        """Say why on the pod, then delete it: this pod and no other that took its name meanwhile."""
        pod, reason = eviction.pod, eviction.reason
        text = f"Pod is evicted, because of {reason}"
        try:
            await self._write_eviction(pod, text)
            await self._client.delete(POD, pod.name, pod.namespace, uid=pod.uid)
        except (ApiError, Disconnected) as error:
            # Gone already, or refused, or the answer was lost: the watch will tell, or a later cycle decides again.
            log.info("eviction not confirmed", pod=pod.name, namespace=pod.namespace, error=error)
            self._resting.begin([pod.uid])
        else:
            self._resting.succeeded(pod.uid)
            log.info("evicted", pod=pod.name, namespace=pod.namespace, node=pod.node, action=reason)
            self._recorder.event(pod_reference(pod), WARNING, _EVICT, text)
            self._recorder.event(group_reference(eviction.group.row), NORMAL, _EVICT, reason)

    async def _write_eviction(self, pod: Pod, text: str) -> None:
        now = timestamp(self._clock.now())
        conditions = [
            {"type": "Ready", "status": "False", "reason": _EVICT, "message": text, "lastTransitionTime": now},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{self._scheduler_name}: {_DISRUPTION}",
                "lastTransitionTime": now,
            },
        ]
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": conditions}}
        await self._client.patch(POD, pod.name, patch, pod.namespace, style=PatchStyle.STRATEGIC, subresource="status")

    # Statuses

    async def _write_for_ever(self) -> None:
        while True:
            key = await self._statuses.get()
            try:
                await self._write(key)
                self._statuses.forget(key)
            except (ApiError, Disconnected) as error:
                delay = self._statuses.retry(key)
                log.debug("status not written", what=key[0], error=error, retry=delay)
            finally:
                self._statuses.done(key)

    async def _write(self, key: tuple[str, str]) -> None:
        wish = self._wishes.get(key)
        if wish is None:
            return
        try:
            if isinstance(wish, _GroupWish):
                await self._write_group(wish)
            elif isinstance(wish, _PodWish):
                await self._write_pod(wish)
            elif isinstance(wish, _EventWish):
                self._tell(wish.row, wish.announcement)
            else:
                await self._write_queue(wish)
            self._note_written(key)
        except NotFound:
            self._written.pop(key, None)
        if self._wishes.get(key) is wish:
            del self._wishes[key]

    def _note_written(self, key: tuple[str, str]) -> None:
        self._written[key] = self._clock.monotonic()
        self._written.move_to_end(key)
        if len(self._written) > _REMEMBERED_WRITES:
            self._written.popitem(last=False)

    def _wish(self, key: tuple[str, str], wish: _Wish, *, after: float = 0.0) -> None:
        """Have something written in `after` seconds, or earlier if that was already arranged."""
        self._wishes[key] = wish
        self._statuses.add_after(key, after)

    def _patience(self, key: tuple[str, str]) -> float:
        """Seconds until a period has passed since the last write."""
        last = self._written.get(key)
        return 0.0 if last is None else max(0.0, last + self._period - self._clock.monotonic())

    def _wish_group(self, outcome: GroupOutcome, cycle_id: str) -> None:
        row = self._cache.group(outcome.group.row.key)
        if row is None or row.uid != outcome.group.row.uid:
            return
        self._wish_events(row, outcome)
        key = ("group", row.uid)
        if group_status(row, outcome, cycle_id, "") is None and waiting_annotations(row, outcome) is None:
            self._wishes.pop(key, None)
        else:
            self._wish(key, _GroupWish(outcome, cycle_id), after=self._group_delay(row, outcome))
        for pod, condition in outcome.pod_conditions:
            if not _says(pod.condition, condition):
                self._wish_pod(pod, condition)

    def _wish_pod(self, pod: Pod, condition: Condition) -> None:
        earlier = self._wishes.get(("pod", pod.uid))
        if isinstance(earlier, _PodWish) and earlier.condition.nominated and not condition.nominated:
            # For which node others left is not taken back by what a later cycle finds.
            condition = replace(condition, nominated=earlier.condition.nominated)
        # That a pod waits is worth saying once it has waited: most go within the second. That others leave for it is
        # news at once.
        after = 0.0 if condition.nominated else self._period
        self._wish(("pod", pod.uid), _PodWish(pod, condition), after=after)

    def _group_delay(self, row: PodGroup, outcome: GroupOutcome) -> float:
        """A new phase and a new verdict are news; counts, and a gang that is only just being made, can wait."""
        if row.status.get("phase") != outcome.phase:
            return 0.0
        if outcome.filling:
            return self._period
        wanted, conditions = outcome.condition, list(row.status.get("conditions") or ())
        if wanted is None or outcome.settling or _current(conditions, wanted) is not None:
            return self._patience(("group", row.uid))
        # Other words for what was said before are said when they have held for a while.
        return self._period if any(condition.get("type") == wanted.type for condition in conditions) else 0.0

    def _wish_events(self, row: PodGroup, outcome: GroupOutcome) -> None:
        complaint = ("event", row.uid)
        self._wishes.pop(complaint, None)
        for told in outcome.announcements:
            if told.type == WARNING:
                self._wish(complaint, _EventWish(row, told), after=self._period)
            else:
                self._tell(row, told)

    def _wish_queue(self, outcome: QueueOutcome) -> None:
        key, queue = ("queue", outcome.name), self._cache.queue(outcome.name)
        if queue is None or dict(queue.allocated or {}) == shown_amounts(outcome):
            # What waits to be written is out of date: it is as it was again.
            self._wishes.pop(key, None)
        else:
            self._wish(key, outcome, after=self._patience(key))

    async def _write_group(self, wish: _GroupWish) -> None:
        row = self._cache.group(wish.outcome.group.row.key)
        if row is None or row.uid != wish.outcome.group.row.uid:
            return
        status = group_status(row, wish.outcome, wish.cycle_id, timestamp(self._clock.now()))
        annotations = waiting_annotations(row, wish.outcome)
        if status is None and annotations is None:
            return
        # The revision guards what others write into the status: a conflict means look again.
        metadata: dict[str, Any] = {"uid": row.uid, "resourceVersion": str(row.revision)}
        patch = {"metadata": metadata, "status": status or {}}
        if annotations is not None:
            metadata["annotations"] = annotations
        self._cache.refresh_group(await self._client.patch(POD_GROUP, row.key.name, patch, row.key.namespace))

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
        self._note_written(("queue", outcome.name))
        self._wish_queue(self._held.get(outcome.name, outcome))

    # Events

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


def group_status(row: PodGroup, outcome: GroupOutcome, cycle_id: str, now: str) -> dict[str, Any] | None:
    """The merge patch for a PodGroup's status, None when it already says all this."""
    patch: dict[str, Any] = {}
    if row.status.get("phase") != outcome.phase:
        patch["phase"] = str(outcome.phase)
    for name, count in (("running", outcome.running), ("succeeded", outcome.succeeded), ("failed", outcome.failed)):
        if (row.status.get(name) or 0) != count:
            patch[name] = count or None
    conditions = list(row.status.get("conditions") or ())
    if outcome.condition is not None and _current(conditions, outcome.condition) is None:
        patch["conditions"] = _with_condition(conditions, outcome.condition, cycle_id, now)
    return patch or None


def waiting_annotations(row: PodGroup, outcome: GroupOutcome) -> dict[str, str | None] | None:
    """The merge patch for what a PodGroup's annotations say of its waiting, None when they already say it."""
    wanted = outcome.waiting
    if wanted is None or row.waiting == (wanted.reason, wanted.message):
        return None
    return {REASON_ANNOTATION: wanted.reason or None, MESSAGE_ANNOTATION: wanted.message or None}


def _says(known: Condition | None, wanted: Condition) -> bool:
    """Whether a pod's condition says all of `wanted`; a node named earlier may stay."""
    if known is None or (known.reason, known.message) != (wanted.reason, wanted.message):
        return False
    return not wanted.nominated or known.nominated == wanted.nominated


def _current(conditions: list[Mapping[str, Any]], wanted: GroupCondition) -> Mapping[str, Any] | None:
    for condition in conditions:
        same = (condition.get("type"), condition.get("status"), condition.get("reason"), condition.get("message") or "")
        if same == (wanted.type, "True", wanted.reason, wanted.message):
            return condition
    return None


def _with_condition(
    conditions: list[Mapping[str, Any]], wanted: GroupCondition, cycle_id: str, now: str
) -> list[Mapping[str, Any]]:
    """The list with the condition in the place of an earlier one of its type, or at the end."""
    entry = {
        "type": str(wanted.type),
        "status": "True",
        "transitionID": cycle_id,
        "lastTransitionTime": now,
        "reason": str(wanted.reason),
        **({"message": wanted.message} if wanted.message else {}),
    }
    if any(condition.get("type") == wanted.type for condition in conditions):
        return [entry if condition.get("type") == wanted.type else condition for condition in conditions]
    return [*conditions, entry]


def shown_amounts(outcome: QueueOutcome) -> dict[str, str]:
    return {name: show_amount(name, amount) for name, amount in outcome.allocated.items()}


def _binding(pod: Pod, node: str) -> Binding:
    return Binding(pod.namespace, pod.name, node, pod.uid)
