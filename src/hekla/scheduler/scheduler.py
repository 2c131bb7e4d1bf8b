"""The scheduler as a component: informers feed the cache, changes start cycles, the binder carries plans out.

A cycle starts a few milliseconds after something changed, so that one cycle sees what belongs together, or later where
there are many (`rhythm.py`); with nothing new there is none, except that what failed is tried again within a period.
Everything is derived from what the API server says, so the component can be stopped or killed at any point and started
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hekla.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, PRIORITY_CLASS, QUEUE, Kind
from hekla.api.meta import key_of, name_of
from hekla.api.scheduling import DEFAULT_QUEUE, ROOT_QUEUE
from hekla.client.informer import Informer, Update
from hekla.client.lease import Election
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.errors import AlreadyExists, ApiError, Disconnected
from hekla.file_stamp import Stamp, stamp_of
from hekla.log import get_logger
from hekla.metrics import serving_metrics, tell_whether_leading
from hekla.scheduler.admissions import Admissions
from hekla.scheduler.binder import Binder
from hekla.scheduler.blame import PluginLost, TooLong
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, ConfigError, default_config, read_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.failures import RETRY_SECONDS, Failures
from hekla.scheduler.figure import Figure
from hekla.scheduler.intake import Door, doors_of, take_in
from hekla.scheduler.metrics import SchedulerMetrics
from hekla.scheduler.plan import Plan
from hekla.scheduler.podfeed import PodFeed
from hekla.scheduler.rhythm import Rhythm
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.timings import Timings
from hekla.scheduler.watchdog import BUDGET_SECONDS, Watchdog

log = get_logger("scheduler")

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 1.0


@dataclass(frozen=True)
class SchedulerSettings:
    scheduler_names: tuple[str, ...] = ("volcano",)
    conf: Path | None = None  # upstream's configuration file; the built-in one where there is none
    plugins_dir: Path | None = None  # files of plugins; else the folder `plugins` beside the configuration
    default_queue: str = DEFAULT_QUEUE
    node_labels: tuple[tuple[str, str], ...] = ()  # nodes with none of these are not ours; empty for all nodes
    priority_classes: bool = True  # whether groups have the priority of the class they name
    # Seconds until what failed is tried again, and between two writes of nothing but counts. What a gang has lost is
    # told after three quarters of it.
    period: float = 1.0
    coalesce: float = 0.005  # seconds to wait for more after the first change
    in_flight: int = 64  # bindings on their way at a time
    metrics_address: str = ""  # where to serve figures for Prometheus; empty for nowhere
    torn_seconds: float = 20.0  # how long a gang may be bound in part before it is undone
    plugin_seconds: float = BUDGET_SECONDS  # the longest a call of a plugin that is not ours may take
    queue_gates: bool = False  # whether queues let pods through the scheduling gate that is theirs
    scheduled_events: int = 16  # gangs up to this size get a Scheduled event for each pod, larger ones one in all


async def run(
    client: Client,
    *,
    clock: Clock,
    rng: random.Random,
    settings: SchedulerSettings,
    executor: Executor | None = None,
    election: Election | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Schedule until cancelled. Cycles run in `executor`, or inline where there is none.

    Where there is an election, from when it is won; `client` should be fenced by it.
    """
    scheduler = _Scheduler(client, clock, rng, settings, executor)
    async with scheduler.serving_metrics(election), election.won() if election else contextlib.nullcontext():
        try:
            await scheduler.run(ready)
        finally:
            await scheduler.tell_the_rest()


class _Scheduler:
    def __init__(
        self, client: Client, clock: Clock, rng: random.Random, settings: SchedulerSettings, executor: Executor | None
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._executor = executor
        self._watchdog = Watchdog(settings.plugin_seconds)
        self._configuration = _Configuration(settings.conf, settings.plugins_dir, self._watchdog)
        self._cache = Cache(
            scheduler_names=settings.scheduler_names,
            default_queue=settings.default_queue,
            node_labels=settings.node_labels,
            queue_gates=settings.queue_gates,
        )
        self._recorder = Recorder(client, settings.scheduler_names[0], clock=clock, rng=rng)
        self._admissions = Admissions(client)
        self._failures = Failures(clock)
        self._metrics = SchedulerMetrics(clock) if settings.metrics_address else None
        self._last_plan: Plan | None = None  # for those who ask why, where anybody can
        self._wake = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._rules: tuple[Config, frozenset[str]] | None = None  # those of the last cycle
        watched = self._metrics.watched if self._metrics is not None else None
        self._pods = PodFeed(
            client, self._cache, rng=rng, wake=self._wake.set, wake_later=self._cycle_soon, watched=watched
        )
        self._binder = Binder(
            client,
            self._cache,
            self._recorder,
            clock=clock,
            period=settings.period,
            in_flight=settings.in_flight,
            scheduled_events=settings.scheduled_events,
            scheduler_name=settings.scheduler_names[0],
            torn_seconds=settings.torn_seconds,
            metrics=self._metrics,
            wake=self._wake.set,
        )

    async def run(self, ready: Callable[[], None] | None) -> None:
        sources: list[Informer | PodFeed] = [*self._informers(), self._pods]
        async with asyncio.TaskGroup() as tasks:
            for source in sources:
                tasks.create_task(source.run())
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._binder.run())
            tasks.create_task(self._admissions.run())
            tasks.create_task(self._watch_configuration())
            await self._make_queues()
            for source in sources:
                await source.synced()
            log.info("ready", queues="root," + self._settings.default_queue)
            if ready is not None:
                ready()
            try:
                await self._cycle_for_ever()
            finally:
                self._cancel_retry()

    async def tell_the_rest(self) -> None:
        """The last of it, as far as an API server takes it at once."""
        await self._recorder.flush()

    @contextlib.asynccontextmanager
    async def serving_metrics(self, election: Election | None) -> AsyncIterator[None]:
        if self._metrics is None:
            yield
            return
        if election is not None:
            tell_whether_leading(self._metrics.registry, election.name, lambda: election.leads)
        pages = {"/decisions": self._decisions}
        async with serving_metrics(self._metrics.registry, self._settings.metrics_address, pages):
            yield

    def _decisions(self) -> list[Mapping[str, Any]]:
        """Why each group waits that waits, as of the last cycle."""
        if self._last_plan is None or self._rules is None:
            return []
        try:
            with self._watchdog.over(self._rules[0]):
                return self._last_plan.decisions()
        except PluginLost as error:
            log.warning("decisions not told", error=error)
            return []

    def _figures(self, config: Config, plan: Plan) -> list[Figure]:
        """Of plugins, which are asked when somebody looks: no cycle watches them then."""
        with self._watchdog.over(config):
            return list(plan.figures())

    def _informers(self) -> list[Informer]:
        unwatched = () if self._settings.priority_classes else (PRIORITY_CLASS,)
        return [self._informer(kind, door) for kind, door in doors_of(self._cache).items() if kind not in unwatched]

    def _informer(self, kind: Kind, door: Door) -> Informer:
        informer = Informer(self._client, kind, view=door.view, rng=self._rng, only_told=True)
        informer.subscribe(_Feed(door, self._wake))
        if kind is PERSISTENT_VOLUME_CLAIM:
            informer.subscribe(lambda update: self._binder.claim_changed(key_of(update.obj)))
        elif kind is PERSISTENT_VOLUME:
            informer.subscribe(lambda update: self._binder.volume_changed(name_of(update.obj)))
        return informer

    async def _make_queues(self) -> None:
        """Make sure the two queues everything hangs on exist; waits while the kind is not served yet."""
        for name, reclaimable in ((ROOT_QUEUE, False), (self._settings.default_queue, True)):
            delay, told = _FIRST_DELAY, ""
            while refusal := await self._make_queue(name, reclaimable):
                if refusal != told and delay == _LONGEST_DELAY:
                    # Not a matter of a moment: nothing is scheduled until somebody mends it.
                    log.warning("queue not made yet", queue=name, error=refusal)
                    told = refusal
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_DELAY)

    async def _make_queue(self, name: str, reclaimable: bool) -> str:
        """Empty when it is there, else why it is not."""
        queue = {
            "apiVersion": QUEUE.api_version,
            "kind": QUEUE.kind,
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": reclaimable},
        }
        try:
            if await self._client.find(QUEUE, name) is None:
                await self._client.create(QUEUE, queue)
        except AlreadyExists:
            return ""
        except (ApiError, Disconnected) as error:
            return str(error)
        return ""

    async def _watch_configuration(self) -> None:
        """Have a cycle when the configuration changed. A mounted ConfigMap is swapped by links: nobody tells."""
        while self._settings.conf is not None:
            await asyncio.sleep(self._settings.period)
            if self._configuration.has_changed():
                self._wake.set()

    async def _cycle_for_ever(self) -> None:
        rhythm = Rhythm(self._settings.coalesce, self._settings.period)
        while True:
            await self._wake.wait()
            await asyncio.sleep(rhythm.pause(self._clock.monotonic()))
            self._wake.clear()
            self._cancel_retry()
            started = self._clock.monotonic()
            try:
                await self._cycle()
            except Exception:
                # The loop must survive whatever one object brings; the next change or period tries again.
                log.exception("cycle failed")
                self._try_again_later(self._settings.period)
            rhythm.cycled(started, self._clock.monotonic())

    async def _cycle(self) -> None:
        config = self._configuration.current()
        cycle_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        now = self._clock.now().timestamp()
        rules = (config, frozenset(self._failures.suspended()))
        if rules != self._rules:
            self._rules = rules
            self._cache.look_at_everything()
        snapshot = self._cache.snapshot(cycle_id, now=now)
        generation = self._cache.generation
        started, timings = self._clock.monotonic(), Timings(self._clock.monotonic if self._metrics else None)
        plan = await self._decide(snapshot, config, timings)
        if self._metrics is not None:
            figures = partial(self._figures, config, plan)
            self._metrics.cycle_done(replace(plan, figures=figures), timings, self._clock.monotonic() - started)
            self._last_plan = plan
        self._binder.take(plan, generation)
        self._cache.let_in(plan.admitted)
        self._admissions.take(plan.admitted)
        if plan.due is not None:
            self._try_again_later(max(plan.due - now, self._settings.period))
        if plan.failures:
            self._failures.note(plan.failures)
            self._try_again_later(RETRY_SECONDS)

    async def _decide(self, snapshot: Snapshot, config: Config, timings: Timings) -> Plan:
        lost = self._failures.suspended()
        if self._executor is None:
            with self._watchdog.over(config):
                return run_cycle(snapshot, config, lost, timings)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, run_cycle, snapshot, config, lost, timings)

    def _cycle_soon(self) -> None:
        self._try_again_later(self._settings.period)

    def _try_again_later(self, delay: float) -> None:
        """Have a cycle after a while even if nothing changes until then; sooner, where that was arranged already."""
        loop = asyncio.get_running_loop()
        if self._retry is None or loop.time() + delay < self._retry.when():
            self._cancel_retry()
            self._retry = loop.call_later(delay, self._wake.set)

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None


class _Feed:
    """Hands an informer's updates to the cache and starts a cycle when a decision may come out differently."""

    def __init__(self, door: Door, wake: asyncio.Event) -> None:
        self._door = door
        self._wake = wake

    def __call__(self, update: Update) -> None:
        if take_in(self._door.put, update.new) if update.new is not None else self._door.remove(update.obj):
            self._wake.set()


class _Configuration:
    """The configuration in force: the file's, read again when it changed, or the last one that was right."""

    def __init__(self, path: Path | None, plugins_dir: Path | None, watchdog: Watchdog) -> None:
        self._path = path
        self._plugins_dir = plugins_dir
        self._watchdog = watchdog
        self._seen: tuple[int, int, int] | None = None
        self._config = default_config()
        if path is not None:
            # A wrong file at start is the person's to see at once; later it must not take a running scheduler down.
            self._config = self._read(path)
            self._seen = self._stamp(path)

    def has_changed(self) -> bool:
        return self._path is not None and self._stamp(self._path) != self._seen

    def current(self) -> Config:
        if self._path is None or not self.has_changed():
            return self._config
        self._seen = self._stamp(self._path)
        try:
            self._config = self._read(self._path)
            log.info("configuration read", path=self._path)
        except (OSError, ConfigError) as error:
            log.error("configuration not used, the last one stays in force", path=self._path, error=error)
        return self._config

    def _read(self, path: Path) -> Config:
        try:
            with self._watchdog.over_loading():
                return read_config(path, self._plugins_dir)
        except TooLong as error:
            raise ConfigError(str(path), [str(error)]) from None

    @staticmethod
    def _stamp(path: Path) -> Stamp | None:
        """None while it cannot be looked at."""
        try:
            return stamp_of(path)
        except OSError:
            return None
