"""Carries a plan out, and tells the cache what failed: bindings here, `evictions.py` and `statuses.py` the rest.

Taking a plan never waits. Bindings go out many at a time; what fails rests for a while (`resting.py`) and is then for
another cycle to decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hekla.api.batches import Binding
from hekla.api.devices import GPU_INDEX, PREDICATE_TIME
from hekla.api.kinds import POD
from hekla.api.meta import Key
from hekla.client.recorder import NORMAL, Recorder
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.errors import ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.evictions import Evictions
from hekla.scheduler.metrics import SchedulerMetrics
from hekla.scheduler.plan import Plan
from hekla.scheduler.references import pod_reference
from hekla.scheduler.resting import Resting
from hekla.scheduler.rows import Pod
from hekla.scheduler.statuses import Statuses
from hekla.scheduler.torn import TornGangs
from hekla.scheduler.volumebinding import VolumeBinding

log = get_logger("scheduler")

_PODS_TOGETHER = 200  # in one request, where small gangs may share one

_Gang = list[tuple[Pod, str]]  # pods that belong together, each with its node


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
        self._in_flight = in_flight
        self._scheduled_events = scheduled_events
        self._metrics = metrics
        self._wake = wake
        self._bindings: WorkQueue[int] = WorkQueue()
        self._gangs: dict[int, _Gang] = {}
        self._taken = 0
        self._resting = Resting(cache, period=period, wake=wake)
        self._torn = TornGangs(
            client, cache, recorder, patience=torn_seconds, end_rest=lambda pod: self._resting.end(pod.uid)
        )
        writers = max(1, in_flight // 4)
        self._evictions = Evictions(
            client, recorder, self._resting, clock=clock, in_flight=writers, scheduler_name=scheduler_name
        )
        self._volumes = VolumeBinding(
            client, cache.storage, bound=self._bindings.add, failed=self._volumes_failed, in_flight=writers
        )
        self._statuses = Statuses(client, cache, recorder, clock=clock, period=period, in_flight=in_flight, wake=wake)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in (self._torn, self._evictions, self._volumes, self._statuses):
                    tasks.create_task(part.run())
                for _ in range(self._in_flight):
                    tasks.create_task(self._bind_for_ever())
        finally:
            self._bindings.close()
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
                self._statuses.withdraw(pod)
            self._taken += 1
            self._gangs[self._taken] = gang
            if placement.choices:
                choices = (choice for found in placement.choices.values() for choice in found)
                self._volumes.begin(self._taken, choices, plan.volume_seconds)
            else:
                self._bindings.add(self._taken)
        for eviction in plan.evictions:
            if self._cache.assume_evicted(eviction.pod):
                self._evictions.take(eviction)
                # What the groups make of it is for another cycle to say.
                self._wake()
        self._statuses.take(plan)

    def claim_changed(self, claim: Key) -> None:
        """The cache has news of a claim, for whose volume pods may be waiting."""
        self._volumes.claim_changed(claim)

    def volume_changed(self, volume: str) -> None:
        self._volumes.volume_changed(volume)

    def _volumes_failed(self, number: int, problem: str) -> None:
        """None of the gang is bound; another cycle decides about all of it."""
        pods = [pod for pod, _ in self._gangs.pop(number)]
        log.warning("volumes not bound", pods=len(pods), error=problem)
        for pod in pods:
            self._statuses.complain(pod, f"volumes are not bound: {problem}")
        self._resting.begin(pod.uid for pod in pods)

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
        bindings = [self._binding(pod, node) for gang in gangs for pod, node in gang]
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
        bindings = [self._binding(pod, node) for pod, node in gang]
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
            self._statuses.complain(pod, f"the gang is not bound without {culprit}")
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
        self._statuses.complain(pod, f"failed to bind to node {node}: {error}")
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

    def _wake_if(self, news: bool) -> None:
        """Others' changes may come with the answer to a write of ours; from the watch they are no news then."""
        if news:
            self._wake()

    def _binding(self, pod: Pod, node: str) -> Binding:
        """What its cards are is written with the pod's node, so that one is never without the other."""
        if not pod.cards:
            return Binding(pod.namespace, pod.name, node, pod.uid)
        cards, now = ",".join(map(str, pod.cards)), int(self._clock.now().timestamp() * 1e9)
        return Binding(pod.namespace, pod.name, node, pod.uid, {GPU_INDEX: cards, PREDICATE_TIME: str(now)})
