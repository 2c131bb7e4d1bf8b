"""The worker: drives one pod, from the moment it is bound here until nothing of it is left.

Level-triggered: it looks at the pod's spec and at what its containers have done, and does what is due next. It keeps
no secret knowledge: an agent killed at any moment is replaced by one that reads the records and goes on.
Deciding is in `lifecycle.py`, starting in `starter.py`, reporting in `reporter.py`.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from datetime import datetime

from hekla.api.container_end import ENDED_BADLY, ContainerEnd
from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import POD, Obj
from hekla.api.meta import is_deleting, name_of, namespace_of, parse_timestamp, revision_of, timestamp, uid_of
from hekla.client.recorder import NORMAL, WARNING
from hekla.errors import ApiError, Conflict, Disconnected, NotFound
from hekla.log import get_logger
from hekla.node import lifecycle
from hekla.node.cleanup import end_pod, kill_sandbox
from hekla.node.context import NodeContext
from hekla.node.directory import PodDirectory
from hekla.node.handlers import Handlers
from hekla.node.hooks.probes import Health, initial_health
from hekla.node.records import ExitRecord
from hekla.node.refreshing import Refresher
from hekla.node.refusal import refusal, unheeded_wishes
from hekla.node.reporter import Reporter
from hekla.node.runtime import (
    Attempt,
    ContainerRuntime,
    PodRuntime,
    Reason,
    Waiting,
    init_containers,
    is_sidecar,
    main_containers,
)
from hekla.node.shim import START_ERROR
from hekla.node.starter import Starter
from hekla.node.switch_client import SwitchError
from hekla.node.takeback import take_back
from hekla.node.tending import Tender, before_stop

log = get_logger("node")

_GRACE_WHEN_GONE = 2.0
_GRACE_AFTER_HOOK = 2.0
_FIRST_RETRY = 1.0
_LONGEST_RETRY = 30.0


class Worker:
    def __init__(self, pod: Obj, context: NodeContext) -> None:
        self.uid = uid_of(pod)
        self._pod = pod
        self._gone = False
        self._context = context
        self._directory = PodDirectory(context.settings.data_dir, self.uid)
        self._runtime = PodRuntime()
        self._wake = asyncio.Event()
        self._retries: dict[str, tuple[int, float]] = {}  # container: failures, not before (monotonic)
        self._rests: dict[str, tuple[int, float]] = {}  # container: its last attempt, over since (monotonic)
        self._active_since = 0.0  # monotonic
        self._stopping: set[str] = set()  # containers that end because we end them
        self._reporter = Reporter(context, self._current)
        self._starter = Starter(context, self._directory)
        self._refresher = Refresher(
            self._starter, context.living_sources, lambda: (self._pod, self._runtime.anything_running)
        )
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def pod(self) -> Obj:
        return self._pod

    @property
    def directory(self) -> PodDirectory:
        return self._directory

    def evict(self, message: str) -> None:
        """Fail the pod, at once: its containers get no time to write more. Nothing happens to one that is over."""
        if self._runtime.failed is None and self._runtime.anything_running:
            self._fail(Reason.EVICTED, message)
            self._wake.set()

    def update(self, pod: Obj | None) -> None:
        """The API server's newest word on the pod; None when its object is gone."""
        if pod is None:
            self._gone = True
            self._context.room.give_back(self.uid)
        elif revision_of(pod) >= revision_of(self._pod):
            self._pod = pod
        self._wake.set()

    def look_again(self) -> None:
        """The machine has slept, or the clock was set: what is waited for may be due."""
        self._wake.set()

    async def run(self) -> None:
        """Until the pod's object is gone and nothing of it is left. Cancelling leaves the pod running."""
        self._active_since = self._start_of_activity()
        async with asyncio.TaskGroup() as self._tasks:
            reporting = self._tasks.create_task(self._reporter.run())
            refreshing = self._tasks.create_task(self._refresher.run())
            # 1. What earlier agents started is taken back, never started again.
            finished_before = (self._pod.get("status") or {}).get("phase") in FINISHED_POD_PHASES
            await self._claim()
            self._restore()
            # 2. A pod that cannot be run here is told so, once.
            if not finished_before:
                self._refuse_what_cannot_be()
            # 3. Start what is due and wait for something to happen, until nothing more is to run.
            if not finished_before:
                await self._run_containers()
            # 4. Sidecars, and containers of a pod that is not wanted any more, are stopped.
            await self._stop_containers()
            # What it had is free at once: the next pod may be here as soon as this one is told to be over.
            self._context.room.give_back(self.uid)
            self._directory.give_back_gpus()
            refreshing.cancel()
            await asyncio.wait([refreshing])
            await self._release_sandbox()
            # 5. The last word about it, before anybody is told that it is gone.
            if not finished_before:
                await self._reporter.flush()
            # 6. Logs stay until the object goes.
            await self._until(lambda: self._gone or is_deleting(self._pod))
            await self._confirm_deletion()
            await self._until(lambda: self._gone)
            reporting.cancel()
        # 7. Of a Job's pod the logs stay until the Job goes.
        await asyncio.to_thread(end_pod, self._directory)
        if self._context.log_keeper is not None:
            self._context.log_keeper.look()

    def _current(self) -> tuple[Obj | None, PodRuntime]:
        return (None if self._gone else self._pod), self._runtime

    async def _claim(self) -> None:
        """Have a place on disk, as soon as there is room for it."""
        delay = _FIRST_RETRY
        while not self._gone:
            try:
                self._directory.claim(self._pod, self._context.settings.name)
                return
            except OSError as error:
                message = f"no place for the pod: {error.strerror}"
                self._context.recorder.event(self._pod, WARNING, "FailedCreatePodSandBox", message)
                waiting = Waiting(Reason.CREATING, message)
                for each in init_containers(self._pod) + main_containers(self._pod):
                    self._runtime = self._runtime.with_container(ContainerRuntime(each["name"], waiting=waiting))
                self._reporter.changed()
                self._wake.clear()
                await self._sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY)

    def _restore(self) -> None:
        self._runtime = take_back(self._pod, self._directory, self._now())
        for container in self._runtime.containers.values():
            if container.running and container.last is not None:
                self._watch(container.name, container.last)
            elif container.last is not None and container.last.exit and self._was_told_running(container.name):
                self._tell_end(container.name, container.last.exit)

    def _was_told_running(self, name: str) -> bool:
        """Whether it ended while no agent was there to tell, and nobody had asked for that."""
        status = self._pod.get("status") or {}
        told = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        running = {each["name"] for each in told if (each.get("state") or {}).get("running") is not None}
        return name in running and not is_deleting(self._pod)

    def _refuse_what_cannot_be(self) -> None:
        if any(container.attempts for container in self._runtime.containers.values()):
            self._context.room.hold(self._pod)
        elif self._runtime.failed is None and not self._gone and (full := self._context.room.take(self._pod)):
            self._fail(full.reason, full.message)
            return
        wishes = unheeded_wishes(self._pod, limits=self._context.cgroups is not None)
        if wishes and not any(container.attempts for container in self._runtime.containers.values()):
            text = f"this node does not honour yet: {', '.join(wishes)}"
            self._context.recorder.event(self._pod, WARNING, str(Reason.UNSUPPORTED), text)
        message = refusal(self._pod, self._context.settings.host_paths)
        if message and self._runtime.failed is None:
            self._runtime = replace(self._runtime, failed=Waiting(Reason.UNSUPPORTED, message))
            self._context.recorder.event(self._pod, WARNING, str(Reason.UNSUPPORTED), message)

    async def _run_containers(self) -> None:
        while not (self._gone or is_deleting(self._pod)):
            left = lifecycle.time_left(self._pod, self._context.clock.monotonic() - self._active_since)
            if left is not None and left <= 0 and self._runtime.failed is None:
                self._fail(Reason.DEADLINE, "Pod was active on the node longer than the specified deadline")
            steps = lifecycle.next_steps(self._pod, self._runtime, self._now(), self._rested)
            if steps.finished:
                return
            self._wake.clear()
            if not await self._start_due(steps.start):
                waits = [steps.wake_after, self._next_retry(steps.start), left]
                await self._sleep(min((wait for wait in waits if wait is not None), default=None))

    async def _start_due(self, names: tuple[str, ...]) -> bool:
        """Start those that may be tried now; True when the situation has changed."""
        moment = self._context.clock.monotonic()
        due = [name for name in names if self._retries.get(name, (0, 0.0))[1] <= moment]
        if not due:
            return False
        self._reporter.expect_change()
        for outcome in await self._starter.start(self._pod, self._runtime, due):
            container = replace(outcome.container, health=initial_health(self._find(outcome.container.name)))
            self._runtime = replace(
                self._runtime.with_container(container), address=outcome.address or self._runtime.address
            )
            last = outcome.container.last
            if outcome.container.waiting is not None:
                self._postpone(outcome.container.name)
            elif last is not None and last.running:
                self._retries.pop(outcome.container.name, None)
                self._watch(outcome.container.name, last)
        self._reporter.changed()
        return True

    def _postpone(self, name: str) -> None:
        failures = self._retries.get(name, (0, 0.0))[0]
        delay = min(_FIRST_RETRY * 2 ** min(failures, 10), _LONGEST_RETRY)
        self._retries[name] = (failures + 1, self._context.clock.monotonic() + delay)

    def _rested(self, container: ContainerRuntime) -> float:
        """Seconds since its last attempt was first found to be over."""
        moment, last = self._context.clock.monotonic(), container.last.number if container.last is not None else -1
        if self._rests.get(container.name, (-1, 0.0))[0] != last:
            self._rests[container.name] = (last, moment)
        return moment - self._rests[container.name][1]

    def _next_retry(self, names: tuple[str, ...]) -> float | None:
        times = [self._retries[name][1] for name in names if name in self._retries]
        return max(0.0, min(times) - self._context.clock.monotonic()) if times else None

    def _watch(self, name: str, attempt: Attempt) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._await_end(name, attempt))

    async def _await_end(self, name: str, attempt: Attempt) -> None:
        assert attempt.started is not None
        async with asyncio.TaskGroup() as tasks:
            tending = tasks.create_task(self._tender(name, attempt.number).run())
            await self._context.launcher.wait_for_end(attempt.started["shim"])
            tending.cancel()
        record = self._directory.exit_record(name, attempt.number) or self._lost(name, attempt)
        self._runtime = self._runtime.with_container(self._runtime.containers[name].ended(attempt.number, record))
        self._tell_end(name, record)
        self._reporter.changed()
        self._wake.set()

    def _tell_end(self, name: str, record: ExitRecord) -> None:
        """The status has it as well, but a policy may delete the pod for it: an Event stays."""
        code = record.get("code", 0)
        if code == 0 or name in self._stopping or record.get("reason") == START_ERROR:
            return
        end = ContainerEnd(name, code, record.get("message", "").strip())
        reason = str(record.get("reason") or "Error")
        self._context.recorder.event(self._pod, NORMAL, reason, str(end), action=ENDED_BADLY)

    def _tender(self, name: str, number: int) -> Tender:
        return Tender(
            pod=self._pod,
            handlers=self._handlers(name),
            recorder=self._context.recorder,
            marker=self._directory.attempt(name, number) / "poststart",
            health=self._runtime.containers[name].health,
            tell=lambda health: self._hear(name, health),
            condemn=lambda message, grace: self._condemn(name, number, message, grace),
        )

    def _handlers(self, name: str) -> Handlers:
        context = self._context
        return Handlers(self._directory, self._find(name), self._runtime.address, context.spawner, context.switch)

    def _hear(self, name: str, health: Health) -> None:
        self._runtime = self._runtime.with_container(replace(self._runtime.containers[name], health=health))
        self._reporter.changed()
        self._wake.set()

    def _condemn(self, name: str, number: int, message: str, grace: float | None) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._stop(name, number, message, grace))

    def _find(self, name: str) -> Obj:
        return next(each for each in init_containers(self._pod) + main_containers(self._pod) if each["name"] == name)

    def _lost(self, name: str, attempt: Attempt) -> ExitRecord:
        """The shim is gone without a word: somebody killed it, and its container with it."""
        record: ExitRecord = {
            "code": 137,
            "reason": Reason.STATUS_UNKNOWN,
            "message": "The container could not be located when its process ended",
            "startedAt": attempt.started_at,
            "finishedAt": timestamp(self._now()),
        }
        self._directory.write_exit(name, attempt.number, record)
        return record

    async def _stop_containers(self) -> None:
        """Main containers first, then sidecars: asked, then made to."""
        failed = self._runtime.failed
        grace = 0.0 if failed is not None and failed.reason == Reason.EVICTED else None
        sidecars = [each["name"] for each in init_containers(self._pod) if is_sidecar(each)]
        others = [name for name in self._runtime.containers if name not in sidecars]
        for names in (others, sidecars):
            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    last = self._runtime.containers[name].last
                    if last is not None and last.running:
                        tasks.create_task(self._stop(name, last.number, f"Stopping container {name}", grace))

    async def _stop(self, name: str, number: int, message: str, grace: float | None) -> None:
        """See one attempt to its end: its preStop hook, a request, and force when its time is up."""
        assert self._tasks is not None
        self._context.recorder.event(self._pod, NORMAL, "Killing", message)
        self._stopping.add(name)
        begun, extra, asked = self._context.clock.monotonic(), 0.0, False
        hook = self._tasks.create_task(before_stop(self._pod, self._handlers(name), self._context.recorder))
        hook.add_done_callback(lambda _: self._wake.set())
        while self._is_running(name, number):
            # The time allowed may shrink while we wait: a second delete with a shorter grace period.
            left = begun + self._allowed(grace) + extra - self._context.clock.monotonic()
            if not asked and (hook.done() or left <= 0):
                # parity: a hook that took all the time leaves two seconds for the container itself.
                extra = _GRACE_AFTER_HOOK if left <= 0 and self._allowed(grace) > 0 else 0.0
                self._signal(name, signal.SIGTERM)
                asked = True
            elif left <= 0:
                break
            else:
                self._wake.clear()
                await self._sleep(left)
        hook.cancel()
        if self._is_running(name, number):
            self._signal(name, signal.SIGKILL)
        await self._until(lambda: not self._is_running(name, number))
        self._stopping.discard(name)

    def _allowed(self, grace: float | None) -> float:
        allowed = lifecycle.grace_seconds(self._pod) if grace is None else grace
        if is_deleting(self._pod):
            allowed = min(allowed, lifecycle.grace_seconds(self._pod))
        return min(allowed, _GRACE_WHEN_GONE) if self._gone else allowed

    def _signal(self, name: str, number: int) -> None:
        last = self._runtime.containers[name].last
        if last is not None and last.started is not None:
            self._context.launcher.signal(last.started["container"], number, group=not self._context.namespaces)

    def _is_running(self, name: str, number: int) -> bool:
        last = self._runtime.containers[name].last
        return last is not None and last.number == number and last.running

    async def _release_sandbox(self) -> None:
        if self._context.switch is not None and self._directory.sandbox():
            try:
                await asyncio.to_thread(self._context.switch.remove, self.uid)
            except SwitchError as error:
                # Without its process the sandbox goes as well; the switch hears of it when next asked.
                log.warning("sandbox not released by the switch", pod=name_of(self._pod), error=error)
                await asyncio.to_thread(kill_sandbox, self._directory)
        await asyncio.to_thread(self._directory.remove_scratch)

    async def _confirm_deletion(self) -> None:
        """Tell the API server that nothing of the pod runs any more: its object may go."""
        delay = _FIRST_RETRY
        while not self._gone:
            try:
                await self._context.client.delete(
                    POD, name_of(self._pod), namespace_of(self._pod), uid=self.uid, grace_seconds=0
                )
                return
            except (NotFound, Conflict):
                return
            except (ApiError, Disconnected) as error:
                log.warning("deletion not confirmed yet", pod=name_of(self._pod), error=error)
                await self._sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY)

    def _fail(self, reason: str, message: str) -> None:
        self._runtime = replace(self._runtime, failed=Waiting(reason, message))
        self._context.recorder.event(self._pod, WARNING, str(reason), message)
        self._reporter.changed()

    def _start_of_activity(self) -> float:
        """Of a pod of earlier agents only the time of day is known; from here on no setting of the clock counts."""
        text, moment = (self._pod.get("status") or {}).get("startTime"), self._context.clock.monotonic()
        return moment - max(0.0, (self._now() - parse_timestamp(text)).total_seconds()) if text else moment

    async def _until(self, condition: object) -> None:
        assert callable(condition)
        while not condition():
            self._wake.clear()
            await self._wake.wait()

    async def _sleep(self, seconds: float | None) -> None:
        """Until something happens, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _now(self) -> datetime:
        return self._context.clock.now()
