"""Carries out what is decided about a Job.

A decision is written into the Job's status before anything is deleted because of it, and what has to be deleted follows
from that status (`lifecycle.py`, `pods.py`). So a controller that dies at any point is continued by the next one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import datetime

from hekla.api.batch import ANSWERED, JobAction, JobEvent, JobPhase
from hekla.api.job_plugins import registered
from hekla.api.kinds import JOB, Obj
from hekla.api.meta import (
    Key,
    controller_of,
    is_deleting,
    is_owned_by,
    key_of,
    namespace_of,
    uid_of,
)
from hekla.api.scheduling import PodGroupPhase
from hekla.client.informer import Update
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client
from hekla.client.workqueue import Urgency
from hekla.clock import Clock
from hekla.controllers.belongings import Lost
from hekla.controllers.job import attempt, first_status
from hekla.controllers.job.commands import JobCommands
from hekla.controllers.job.configured import recorded_plugins
from hekla.controllers.job.groundwork import Ground, Groundwork
from hekla.controllers.job.lifecycle import KILL_PHASES, Operation, next_phase, operation
from hekla.controllers.job.model import Job, Pod, read_job
from hekla.controllers.job.news import group_judged, group_moved, job_moved
from hekla.controllers.job.orders import Order, Waiting, converges, decide
from hekla.controllers.job.patience import Patience
from hekla.controllers.job.plugin import PluginRefused
from hekla.controllers.job.podgroup import is_disowned
from hekla.controllers.job.podindex import PodIndex
from hekla.controllers.job.podmaker import PodMaker
from hekla.controllers.job.pods import Plan, group_name, plan, victims
from hekla.controllers.job.policy import answers_waiting_pods
from hekla.controllers.job.scene import Scene, has_used_up_retries, phase_of
from hekla.controllers.job.status import count_pods, new_status
from hekla.controllers.job.volumes import RECORD
from hekla.controllers.job.writer import JobWriter, Made, PodsFailed
from hekla.controllers.runner import Runner
from hekla.controllers.sources import Sources
from hekla.controllers.targets import drop_strays
from hekla.errors import HeklaError
from hekla.log import get_logger

log = get_logger("job")

# A look at a Job is mostly waiting for answers; with few workers, a thousand small jobs wait for each other.
_WORKERS = 256
_TOLD_AT_A_TIME = 4
_PLUGIN = "plugin-"
_LOOKED_AT_ONCE = 100
_PAUSE_PER_POD = 0.000_05
_LONGEST_PAUSE = 1.0


class JobController:
    def __init__(
        self, client: Client, sources: Sources, *, clock: Clock, rng: random.Random, recorder: Recorder
    ) -> None:
        self._client = client
        self._sources = sources
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._plugins = registered()
        self._patience = Patience(clock)
        self._pods = PodIndex()
        self._read: dict[str, Job] = {}
        self._waiting: dict[str, Waiting] = {}
        self._robbed: set[Key] = set()  # Jobs that have lost something since it was asked whether they are still there
        self.runner = Runner("job", self.reconcile, workers=_WORKERS, told_at_a_time=_TOLD_AT_A_TIME)
        self._write = JobWriter(client, sources, self.runner, recorder, clock, self._pods)
        self._groundwork = Groundwork(client, sources, self._write, recorder, self._plugins, self._patience, clock, rng)
        self._commands = JobCommands(client, sources.commands, self.runner, recorder)
        sources.jobs.subscribe(self._job_changed)
        sources.pods.subscribe(self._pod_changed)
        sources.groups.subscribe(self._group_changed)
        sources.commands.subscribe(self._command_changed)
        sources.queues.subscribe(self._queue_changed)
        for belongings in sources.belongings:
            belongings.subscribe(self._object_lost)

    async def reconcile(self, key: Key) -> None:
        obj = self._sources.jobs.get(key.name, key.namespace)
        await drop_strays(self._client, self._sources.commands, JOB, key, obj)
        if obj is None or is_deleting(obj):
            self._robbed.discard(key)
            return
        try:
            await self._look(obj)
        finally:
            # Where it has gone meanwhile, it was forgotten before this look was over.
            now = self._sources.jobs.get(key.name, key.namespace)
            if now is None or uid_of(now) != uid_of(obj):
                self._forget(uid_of(obj))

    async def _look(self, obj: Obj) -> None:
        # 1. What is there?
        scene = self._scene(obj)
        job = scene.job
        # 2. What somebody has taken off its pods is put back first, whatever may fail later.
        unrestored = await self._write.restore_marks(job, scene.pods)
        # 3. What has happened, and what do Commands and policies say to it?
        command = await self._commands.next(job)
        waiting = self._waiting.pop(job.uid, None) or Waiting()
        now, lost_since = self._clock.now(), scene.lost_since
        decision = decide(job, scene.pods, scene.unanswered_phase, waiting, now, lost_since=lost_since)
        if waiting.holds:
            self._waiting[job.uid] = waiting
        if decision.next_due is not None:
            # Now, because what fails below is tried again less and less often.
            self.runner.enqueue_after(job.key, decision.next_due)
        for reply in decision.announce:
            self._tell(job, NORMAL, "ExecuteAction", f"Execute action {reply.action} after {reply.delay_text}")
        # parity: a Command that names no action asks for a look.
        order = Order(str(command.get("action") or JobAction.SYNC_JOB)) if command else decision.order
        if order.action != JobAction.SYNC_JOB:
            cause = order.occurrence.event if order.occurrence else "Command"
            pod = order.occurrence.pod if order.occurrence else ""
            log.info("executing", job=job.key, action=order.action, phase=job.phase, cause=cause, pod=pod)
            if not order.announced:
                self._tell(job, NORMAL, "ExecuteAction", f"Start to execute action {order.action} ")
        kills = not converges(job, order)
        # 4. A Job is Pending before it is anything else, and again when it has been restarted.
        if kills and attempt.has_begun(scene, order):
            scene = await self._restarted(scene)
            job = scene.job
            kills = not converges(job, order)
        if first_status.is_due(scene, kills=kills):
            scene = await self._begun(scene)
        # 5. Kill what has to go, or converge.
        if kills:
            await self._kill(scene, order)
        else:
            await self._write.note_waiting(job, scene.group, decision.unwritten)
            await self._sync(scene, decision.evicted, uid_of(command) if command else "")
        # 6. A Command goes once what it asked for is written down.
        if command:
            await self._commands.finish(job, command)
        # 7. What could not be put back is tried again.
        if unrestored is not None:
            raise unrestored

    async def _kill(self, scene: Scene, order: Order) -> None:
        job = scene.job
        what = operation(job.phase, order.action)
        targets = victims(job, scene.pods, what, order.action, order.occurrence)
        counts = count_pods(job, scene.pods, [pod.uid for pod in targets])
        gang = scene.last_gang
        after = next_phase(job, order.action, counts, min_available=gang)
        status = new_status(job, counts, after.phase, _records(job), min_available=gang, retries=after.retries)
        if what is Operation.KILL_TARGET:
            await self._kill_target(scene, order, targets, status)
        elif job.phase in KILL_PHASES and after.phase != JobPhase.RESTARTING:
            await self._settle(scene, targets, status)
        else:
            await self._kill_all(scene, order, targets, status)

    async def _kill_target(self, scene: Scene, order: Order, targets: list[Pod], status: Obj) -> None:
        # The pod that gave rise to it is marked last: until then it is the evidence that this has to be done.
        trigger = order.occurrence.pod_uid if order.occurrence else ""
        await self._write.mark_pods(scene.job, [pod for pod in targets if pod.uid != trigger])
        await self._write.status(scene.job, status, killed=True)
        await self._write.mark_pods(scene.job, [pod for pod in targets if pod.uid == trigger])
        if scene.group is not None and order.occurrence is not None and order.occurrence.event == JobEvent.UNKNOWN:
            # The group stays Unknown; once is enough for each time it becomes so.
            await self._write.annotate_group(scene.job, scene.group, {ANSWERED: "true"})
        await self._write.delete_pods(scene.job, targets)

    async def _kill_all(self, scene: Scene, order: Order, targets: list[Pod], status: Obj) -> None:
        job = scene.job
        # What is left from before a suspension is too old to be recognised by its version afterwards.
        await self._write.mark_pods(job, [pod for pod in targets if pod.is_finished and pod.version < job.version])
        group_is_evidence = order.occurrence is not None and order.occurrence.event == JobEvent.UNKNOWN
        if not group_is_evidence:
            await self._write.delete_group(job, scene.group)
        await self._write.status(job, {**status, "version": job.version + 1}, killed=True)
        self._waiting.pop(job.uid, None)
        # Before its pods: what becomes of a group while they are stopped is nobody's business any more.
        if group_is_evidence:
            await self._write.delete_group(job, scene.group)
        await self._write.delete_pods(job, targets)

    async def _settle(self, scene: Scene, targets: list[Pod], status: Obj) -> None:
        """In a phase that kills: nothing is left running, and nothing of what plugins made is left at all."""
        job = scene.job
        await self._write.delete_pods(job, targets)
        await self._write.delete_group(job, scene.group)
        records = _records(job)
        # A group that is there though nothing is recorded was made by one who had not heard that it is over, and what
        # plugins ask for is made before the group.
        if scene.group is not None or any(name.startswith(_PLUGIN) for name in records):
            await self._groundwork.clear(job)
        status["controlledResources"] = {name: value for name, value in records.items() if not name.startswith(_PLUGIN)}
        first_look = not (job.obj.get("status") or {}).get("runningDuration")
        if first_look or status["state"]["phase"] != job.phase:
            status["version"] = job.version + 1
        await self._write.status_if_new(job, {key: value for key, value in status.items() if value}, killed=True)

    async def _sync(self, scene: Scene, evicted: Mapping[str, datetime], command: str) -> None:
        job = scene.job
        if not await self._is_there(job):
            return
        # 1. What the pods need before they exist.
        # A job that is about to fail for want of retries starts nothing any more: its pods would run at once.
        wanted = plan(job, scene.pods, may_create=scene.gate_is_open and not has_used_up_retries(job))
        try:
            ground = await self._groundwork.lay(scene, verify=bool(wanted.create))
        except HeklaError:
            # Whatever holds it up, it is Pending.
            await self._begun(scene)
            raise
        if ground is None:
            return
        # 2. With its gang asked for, a new Job may wait to be let in.
        if first_status.may_wait(scene):
            self.runner.enqueue_after(job.key, first_status.LONGEST_WAIT)
            return
        # 3. Pods.
        made = await self._apply(job, wanted, ground, evicted, command)
        # 4. Status.
        gone = [pod.uid for pod in (*wanted.delete, *wanted.surplus)]
        # An evicted pod whose answer waits stays counted until there is one in its place to remember it.
        awaited = evicted.keys() - {pod.name for pod in (*scene.pods, *made.created)}
        counts = count_pods(job, scene.pods, gone, made.created, awaited)
        gang = scene.converged_gang
        after = next_phase(job, JobAction.SYNC_JOB, counts, min_available=gang)
        if after.phase != JobPhase.PENDING:
            # Pods that were made before, and not heard of yet, may run already.
            job = (await self._begun(scene)).job
        records = {**self._plugin_records(job), **{RECORD + name: name for name in ground.claims}}
        status = new_status(job, counts, after.phase, records, min_available=gang)
        if made.created and first_status.may_be_told_last(job) and not await self._client.offers_batches():
            self.runner.tell_last(job.key, lambda: self._write.status_if_new(job, status))
        else:
            await self._write.status_if_new(job, status)
        if made.created and answers_waiting_pods(job):
            # From now on they wait, and nothing else may happen that has somebody look until when.
            self.runner.enqueue(job.key)
        if made.failed:
            raise PodsFailed(f"Error creating pods: [{' '.join(made.failed)}]", made.asked)
        if made.awaited:
            raise made.awaited
        # 5. What its pods have needed so far, containers that are started again need as well.
        if scene.pods and after.phase not in KILL_PHASES:
            again = await self._groundwork.refresh(job, scene.pods)
            if 0 < again < math.inf:
                self.runner.enqueue_after(job.key, again)

    async def _is_there(self, job: Job) -> bool:
        """Whether a Job that has lost something is not gone itself, and our copy of it old.

        What is made for it then is collected at once, and would be made and collected again until its watch tells.
        """
        if job.key not in self._robbed:
            return True
        self._robbed.discard(job.key)
        try:
            found = await self._client.find(JOB, job.key.name, job.key.namespace)
        except HeklaError:
            self._robbed.add(job.key)
            raise
        return found is not None and uid_of(found) == job.uid and not is_deleting(found)

    async def _begun(self, scene: Scene) -> Scene:
        """The same with a Job that is Pending at least."""
        job = scene.job
        if job.phase:
            return scene
        records = self._plugin_records(job)
        status = new_status(job, count_pods(job, ()), JobPhase.PENDING, records, min_available=job.min_available)
        begun = self._read_job(await self._write.status(job, status))
        return Scene(begun, scene.pods, scene.group)

    async def _restarted(self, scene: Scene) -> Scene:
        """The same with a Job that is Pending again. Nothing else is written: what it counted may be evidence."""
        job = scene.job
        status = {**(job.obj.get("status") or {}), "state": {"phase": JobPhase.PENDING}}
        begun = self._read_job(await self._write.status(job, status))
        return Scene(begun, scene.pods, scene.group)

    async def _apply(
        self,
        job: Job,
        wanted: Plan,
        ground: Ground,
        evicted: Mapping[str, datetime],
        command: str,
    ) -> Made:
        if not (wanted.create or wanted.surplus or wanted.delete):
            return Made()
        maker = PodMaker(job, claims=ground.claims, plugins=ground.plugins, evicted=evicted, rng=self._rng)
        try:
            made = await self._write.create_pods(job, maker, wanted.create, command=command)
        except PluginRefused as error:
            self._tell(job, WARNING, "PluginError", str(error))
            raise
        await self._write.mark_pods(job, wanted.surplus)
        await self._write.delete_pods(job, [*wanted.delete, *wanted.surplus])
        return made

    def _read_job(self, obj: Obj) -> Job:
        uid = uid_of(obj)
        before = self._read.get(uid)
        if before is not None and before.obj is obj:
            return before
        job = self._read[uid] = read_job(obj, before)
        return job

    def _scene(self, obj: Obj) -> Scene:
        job = self._read_job(obj)
        group = self._sources.groups.get(group_name(job), job.key.namespace)
        if group is None:
            # parity: groups of old releases carry the job's bare name.
            group = self._sources.groups.get(job.key.name, job.key.namespace)
        if group is not None and not (is_owned_by(group, obj) or is_disowned(job, group)):
            group = None
        return Scene(job, self._pods.of(job.key.namespace, job.uid), group)

    def _plugin_records(self, job: Job) -> dict[str, str]:
        return {f"{_PLUGIN}{name}": name for name in recorded_plugins(job, self._plugins, self._patience)}

    def _tell(self, job: Job, type_: str, reason: str, message: str) -> None:
        self._recorder.event(job.obj, type_, reason, message)

    def _job_changed(self, update: Update) -> None:
        if update.new is None:
            self._forget(uid_of(update.obj))
        if job_moved(update):
            self.runner.enqueue(key_of(update.obj))
        else:
            self.runner.heard(key_of(update.obj))

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._read.pop(uid, None)
        self._groundwork.forget(uid)

    def _pod_changed(self, update: Update) -> None:
        news = self._pods.update(update)
        owner = _job_behind(update)
        if owner is None:
            return
        key = Key(namespace_of(update.obj), owner["name"])
        if update.new is None:
            self._robbed.add(key)
        # A job of thousands of pods is not looked at for each of them.
        pause = self._pause(key.namespace, owner["uid"])
        if not news:
            self.runner.heard(key)
        elif update.old is None:
            self.runner.enqueue_unless_written(key, self._sources.pods, update.obj, after=pause)
        else:
            self.runner.enqueue_after(key, pause)

    def _group_changed(self, update: Update) -> None:
        owner = _job_behind(update)
        if owner is None:
            return
        key = Key(namespace_of(update.obj), owner["name"])
        if update.new is None:
            self._robbed.add(key)
        if not group_moved(update):
            self.runner.heard(key)
        elif group_judged(update):
            # With a list, our own write may bring what the scheduler wrote just before it. A gang that was let in has
            # pods to be made, for which its part of the cluster is kept: before others are begun.
            let_in = phase_of(update.new) == PodGroupPhase.INQUEUE
            self.runner.enqueue(key, Urgency.AWAITED if let_in else Urgency.USUAL)
        else:
            self.runner.enqueue_unless_written(key, self._sources.groups, update.obj)

    def _pause(self, namespace: str, uid: str) -> float:
        """How long changes of a job's pods may gather: a look takes time in proportion to the pods."""
        pods = self._pods.count(namespace, uid)
        return 0.0 if pods <= _LOOKED_AT_ONCE else min(pods * _PAUSE_PER_POD, _LONGEST_PAUSE)

    def _command_changed(self, update: Update) -> None:
        target = update.obj.get("target") or {}
        if JOB.owns_reference(target):
            self.runner.enqueue(Key(key_of(update.obj).namespace, str(target.get("name"))))

    def _object_lost(self, lost: Lost) -> None:
        if self._groundwork.misses(lost):
            self._robbed.add(lost.job)
            self.runner.enqueue(lost.job)

    def _queue_changed(self, update: Update) -> None:
        """A queue that was missing has come: jobs that wait for it need not wait for their next retry."""
        if update.old is None and update.new is not None:
            name = update.new["metadata"]["name"]
            for job in self._sources.jobs.all():
                if (job.get("spec") or {}).get("queue") == name:
                    self.runner.enqueue(key_of(job))


def _job_behind(update: Update) -> Obj | None:
    """The reference to the Job that something belongs to, or belonged to until it was disowned."""
    for obj in (update.new, update.old):
        owner = controller_of(obj) if obj is not None else None
        if owner is not None and JOB.owns_reference(owner):
            return owner
    return None


def _records(job: Job) -> dict[str, str]:
    return dict((job.obj.get("status") or {}).get("controlledResources") or {})
