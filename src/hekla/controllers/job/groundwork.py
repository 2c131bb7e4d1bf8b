"""Lays the ground for a Job's pods: all that must be there before they are.

What its queue asks of it, the objects of its plugins, its claims, its PodGroup.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from importlib.metadata import EntryPoint

import msgspec

from hekla.api.batch import JOB_FORWARDING
from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, is_deleting, is_owned_by
from hekla.api.plugin_advice import advice
from hekla.api.reasons import Reason
from hekla.client.recorder import WARNING, Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.belongings import Lost
from hekla.controllers.job.configured import Configured, plugins_at_hand
from hekla.controllers.job.kubelets import Kubelets
from hekla.controllers.job.model import Job, Pod
from hekla.controllers.job.objects import NotOurs, ObjectKeeper
from hekla.controllers.job.patience import Patience
from hekla.controllers.job.plugin import PluginRefused, Wanted
from hekla.controllers.job.podgroup import build_pod_group, outdated_notes, pending_message, spec_patch
from hekla.controllers.job.scene import Scene
from hekla.controllers.job.volumes import ClaimMissing, claims_of, ensure_claims, with_claim_names
from hekla.controllers.job.writer import JobWriter
from hekla.controllers.sources import Sources
from hekla.errors import ApiError, HeklaError, NotFound

# A new queue may be heard of later than the first Job that names it.
_QUEUE_MAY_BE_LATE_SECONDS = 1.0


class Ground(msgspec.Struct, frozen=True):
    """What a Job's pods are made with: its plugins, and its claims by name."""

    plugins: list[Configured]
    claims: dict[str, str]


class Groundwork:
    def __init__(
        self,
        client: Client,
        sources: Sources,
        writer: JobWriter,
        recorder: Recorder,
        plugins: Mapping[str, EntryPoint],
        patience: Patience,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._sources = sources
        self._write = writer
        self._recorder = recorder
        self._plugins = plugins
        self._patience = patience
        self._clock = clock
        self._rng = rng
        self._objects = ObjectKeeper(client, Kubelets(client, sources.pods), clock)
        self._groups: dict[str, tuple[tuple[object, ...], Obj]] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._queueless: dict[str, float] = {}  # since when, for Jobs by uid; never, once that has been told

    async def lay(self, scene: Scene, *, verify: bool) -> Ground | None:
        """None when the Job was changed for it, and has to be read again.

        Without `verify`, what was made once for its plugins is believed to be still there, and a plugin that cannot be
        had holds up nothing: the pods that are there run with what it did for them.
        """
        job = scene.job
        if await self._forward(job):
            return None
        plugins = await self._prepare(job, scene.pods, verify=verify)
        claims = await self._claims(job)
        if claims is None:
            return None
        if not scene.ends_with_its_gang:
            await self._ensure_group(job, scene.group)
        return Ground(plugins, claims)

    async def refresh(self, job: Job, pods: list[Pod]) -> float:
        """Make again what its plugins asked for and somebody has deleted, as far as it is time to ask.

        Returns the seconds until it is; 0 where that was now.
        """
        believed_for = self._objects.believed_for(job)
        if believed_for > 0:
            return believed_for
        _, wanted, _ = self._wanted(job)
        try:
            # New keys would lock out the pods that have the old ones.
            await self._objects.ensure(job, [want for want in wanted if want.once is None], pods, verify=True)
        except NotOurs as error:
            # Its pods run, and what becomes of them is not to wait for this.
            self._warn(job, "PluginError", str(error))
        return 0.0

    async def clear(self, job: Job) -> None:
        """Remove what its plugins asked for; what those did that cannot be had any more goes with the Job."""
        _, wanted, wrong = self._wanted(job)
        await self._objects.remove(job, wanted)
        if wrong:
            words = "; ".join(map(str, wrong))
            self._warn(job, "PluginError", f"{words}: what it made for this job stays until the job is deleted")

    def misses(self, lost: Lost) -> bool:
        """Whether the plugins of a Job want something that is gone; `refresh` makes it again then."""
        return self._objects.misses(lost.job_uid, lost.kind, lost.name)

    def forget(self, uid: str) -> None:
        """The Job with this uid is gone."""
        self._groups.pop(uid, None)
        self._told.pop(uid, None)
        self._queueless.pop(uid, None)
        self._objects.forget(uid)

    async def _forward(self, job: Job) -> bool:
        """A queue that extends to other clusters has its jobs say so; True when that was just written."""
        name = str(job.obj["spec"].get("queue") or "")
        queue = self._sources.queues.get(name)
        if queue is None:
            missing = NotFound(f'queue.scheduling.volcano.sh "{name}" not found')
            self._tell_of_queue(job, missing)
            raise missing
        self._queueless.pop(job.uid, None)
        if not (queue.get("spec") or {}).get("extendClusters") or JOB_FORWARDING in annotations_of(job.obj):
            return False
        await self._write.job(job, annotations={JOB_FORWARDING: "true"})
        return True

    def _tell_of_queue(self, job: Job, missing: NotFound) -> None:
        """Say once that the queue of a Job is gone: without it not even the end of its pods is counted."""
        now = self._clock.monotonic()
        if now - self._queueless.setdefault(job.uid, now) >= _QUEUE_MAY_BE_LATE_SECONDS:
            self._queueless[job.uid] = math.inf
            words = f"{missing}: nothing more becomes of this job until that queue is made again"
            self._warn(job, Reason.QUEUE_UNUSABLE, words)

    async def _prepare(self, job: Job, pods: list[Pod], *, verify: bool) -> list[Configured]:
        plugins, wanted, wrong = self._wanted(job)
        stops = bool(wrong) and (verify or not pods)
        self._tell_of_plugins(job, wrong, always=stops)
        if stops:
            raise wrong[0]
        try:
            await self._objects.ensure(job, wanted, pods, verify=verify)
        except (NotOurs, PluginRefused, ApiError) as error:
            self._warn(job, "PluginError", f"Execute plugin when job add failed, err: {error}")
            raise
        if plugins and not (job.obj.get("status") or {}).get("taskStatusCount"):
            self._advise(job, plugins)
        return plugins

    def _tell_of_plugins(self, job: Job, wrong: list[HeklaError], *, always: bool) -> None:
        """Say what is wrong with plugins when it becomes so, and not at every look from then on.

        `always` is for what holds up the Job: Events expire, and the reason must be found as long as it does.
        """
        told = self._told.pop(job.uid, ())
        now = tuple(f"Execute plugin when job add failed, err: {error}" for error in wrong)
        for words in now:
            if always or words not in told:
                self._warn(job, "PluginError", words)
        if now:
            self._told[job.uid] = now

    def _advise(self, job: Job, plugins: list[Configured]) -> None:
        understood = {one.name: one.arguments for one in plugins if one.arguments is not None}
        for name, text in advice(job.key.name, job.obj["spec"], understood):
            self._warn(job, "PluginError", f"spec.plugins[{name}]: {text}")

    async def _claims(self, job: Job) -> dict[str, str] | None:
        """The job's claims, all there; None when their names were just stored and the Job has to be read again."""
        if not job.obj["spec"].get("volumes"):
            return {}
        named = with_claim_names(job, self._rng)
        if named is not None:
            await self._write.job(job, spec={"volumes": named["spec"]["volumes"]})
            return None
        try:
            await ensure_claims(self._client, job)
        except (ClaimMissing, ApiError) as error:
            self._warn(job, "PVCError", f"Failed to create PVC, err: {error}")
            raise
        return claims_of(job)

    async def _ensure_group(self, job: Job, group: Obj | None) -> None:
        if group is not None and is_deleting(group):
            return
        if group is not None and not is_owned_by(group, job.obj):
            await self._write.adopt_group(job, group)
        outdated = outdated_notes(group) if group is not None else {}
        if group is not None and outdated:
            await self._write.annotate_group(job, group, outdated)
        wanted = self._wanted_group(job)
        await self._write.put_group(job, wanted, group, None if group is None else spec_patch(wanted, group))
        message = pending_message(job, group) if group is not None else None
        if message:
            self._warn(job, "PodGroupPending", message)

    def _wanted_group(self, job: Job) -> Obj:
        """Made anew only when the Job as its user wrote it, or the priority classes, have changed."""
        meta = job.obj["metadata"]
        own = (meta.get("generation"), meta.get("labels"), meta.get("annotations"))
        state = (*own, self._sources.priorities.revision)
        known = self._groups.get(job.uid)
        if known is not None and known[0] == state:
            return known[1]
        priorities = {one["metadata"]["name"]: int(one.get("value") or 0) for one in self._sources.priorities.all()}
        wanted = build_pod_group(job, priorities)
        self._groups[job.uid] = state, wanted
        return wanted

    def _wanted(self, job: Job) -> tuple[list[Configured], list[Wanted], list[HeklaError]]:
        """A Job's plugins, what they ask for, and what is wrong with those that cannot be had or do not answer."""
        plugins, wrong = plugins_at_hand(job, self._plugins, self._patience)
        wanted: list[Wanted] = []
        for plugin in plugins:
            try:
                wanted += plugin.objects(job)
            except HeklaError as error:
                wrong.append(error)
        return plugins, wanted, wrong

    def _warn(self, job: Job, reason: str, message: str) -> None:
        self._recorder.event(job.obj, WARNING, reason, message)
