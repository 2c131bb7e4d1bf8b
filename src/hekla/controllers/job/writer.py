"""Every write about a Job: its status, its pods, its PodGroup. What was written is awaited before the next look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from hekla.api.batch import JOB_NAME, JOB_VERSION, OUT_OF_SYNC, TASK_SPEC, WAITING_SINCE
from hekla.api.kinds import JOB, POD, POD_GROUP, Obj
from hekla.api.meta import (
    Key,
    annotations_of,
    controller_of,
    is_deleting,
    is_owned_by,
    key_of,
    name_of,
    namespace_of,
    owner_reference,
    revision_of,
    timestamp,
    uid_of,
)
from hekla.api.stored import job_spec_as_stored
from hekla.client.many import in_turns
from hekla.client.recorder import WARNING, Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.job.model import Job, Pod, marks_of, read_pod
from hekla.controllers.job.plugin import PluginRefused
from hekla.controllers.job.podindex import PodIndex
from hekla.controllers.job.podmaker import PodMaker
from hekla.controllers.job.pods import Place
from hekla.controllers.job.policy import Occurrence
from hekla.controllers.job.status import differs, stamped
from hekla.controllers.runner import Runner
from hekla.controllers.sources import PodView, RevisionView, Sources, StatusView
from hekla.controllers.targets import commands_for
from hekla.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    HeklaError,
    Invalid,
    NotFound,
    TooLarge,
)

T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 32
# One portion is made while the other is under way.
_PORTION = 250
_PORTIONS_AT_ONCE = 2
# What no waiting mends: somebody has to hear of it.
_REFUSALS = (BadRequest, Forbidden, Invalid, TooLarge)


class PodsFailed(ApiError):
    """Some pods could not be created or deleted; what could be done was done, the rest is tried again.

    Not before the seconds that a server has `asked` for.
    """

    def __init__(self, message: str, asked: float) -> None:
        super().__init__(message, details={"retryAfterSeconds": asked} if asked else None)


@dataclass(slots=True)
class Made:
    """What has come of making pods so far: those that are there, and a line about each that could not be made.

    `asked` are the seconds after which these may be tried again, where a server has said so. `awaited` says that a name
    is still taken by a pod that is going, or that the namespace is going; no fault, but to be looked at again.
    """

    created: list[Pod] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    asked: float = 0.0
    awaited: ApiError | None = None
    refused: PluginRefused | None = None


class JobWriter:
    def __init__(
        self,
        client: Client,
        sources: Sources,
        runner: Runner,
        recorder: Recorder,
        clock: Clock,
        pods: PodIndex,
        *,
        portion: int = _PORTION,
    ) -> None:
        """`portion` is how many pods of a Job are made before others get their turn."""
        self._client = client
        self._sources = sources
        self._runner = runner
        self._recorder = recorder
        self._clock = clock
        self._pods = pods
        self._portion = portion
        self._in_flight = asyncio.Semaphore(_IN_FLIGHT)

    async def status(self, job: Job, status: Obj, *, killed: bool = False) -> Obj:
        """Write a status; returns the Job with it. Raises Conflict when the Job changed since it was read."""
        # parity: converging stamps the time on any change, a kill only when the phase changes.
        moved = not killed or status["state"]["phase"] != job.phase
        full = stamped(job, status, self._clock.now(), moved=moved, killed=killed)
        # Of anything but the status, a server takes from this only which object is meant, and as of when.
        which = {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": _as_read(job)}
        try:
            written = await self._client.update_status(JOB, {**which, "status": full}, view=StatusView)
        except _REFUSALS as error:
            what = "update" if job.phase else "initialize"
            self._recorder.event(job.obj, WARNING, "JobStatusError", f"Failed to {what} job status, err: {error}")
            raise
        self._runner.wrote(job.key, self._sources.jobs, written)
        return {**job.obj, **written, "metadata": {**job.obj["metadata"], **written["metadata"]}}

    async def status_if_new(self, job: Job, status: Obj, *, killed: bool = False) -> None:
        if differs(job, status):
            await self.status(job, status, killed=killed)

    async def job(self, job: Job, *, annotations: Obj | None = None, spec: Obj | None = None) -> None:
        """Change the Job itself. Raises Conflict when it changed since it was read."""
        # Our copy is not all of it.
        whole = await self._client.get(JOB, job.key.name, job.key.namespace)
        if uid_of(whole) != job.uid or revision_of(whole) != revision_of(job.obj):
            raise Conflict(f'job "{job.key}" has changed')
        metadata = {**whole["metadata"], "annotations": {**annotations_of(whole), **(annotations or {})}}
        # parity: upstream writes back all of it, in its own spelling.
        changed = {**whole, "metadata": metadata, "spec": job_spec_as_stored({**whole["spec"], **(spec or {})})}
        self._runner.wrote(job.key, self._sources.jobs, await self._client.update(JOB, changed))

    async def create_pods(self, job: Job, maker: PodMaker, wanted: Sequence[Place], *, command: str = "") -> Made:
        """Make what is wanted, as far as it goes.

        Pods are made in portions, each when its turn comes: other jobs get theirs in between, and when the Job changes
        meanwhile the rest is left to the next look at it. `command` is the uid of the Command that is carried out.
        """
        made = Made()
        if not wanted:
            return made
        portions = [wanted[first : first + self._portion] for first in range(0, len(wanted), self._portion)]
        results = await in_turns(
            portions, lambda portion: self._create_portion(job, maker, portion, made, command), _PORTIONS_AT_ONCE
        )
        errors = [result for result in results if isinstance(result, ApiError)]
        made.failed += [f"failed to create pods, err: {error}" for error in errors]
        made.asked = max(made.asked, _asked_by(errors))
        if made.refused is not None:
            raise made.refused
        if made.failed:
            self._recorder.event(job.obj, WARNING, "FailedCreate", f"Error creating pods: [{' '.join(made.failed)}]")
        return made

    async def _create_portion(
        self, job: Job, maker: PodMaker, portion: Sequence[Place], made: Made, command: str
    ) -> None:
        if made.refused is not None or self._has_changed(job, command):
            return
        try:
            pods = [maker.make(task, index) for task, index in portion]
        except PluginRefused as error:
            made.refused = error
            return
        for pod, result in zip(pods, await self._client.create_many(POD, pods, view=PodView), strict=True):
            taken = await self._take_pod(job, pod, result)
            if isinstance(taken, ApiError) and (isinstance(taken, Conflict) or taken.namespace_goes):
                made.awaited = taken
            elif isinstance(taken, ApiError):
                made.failed.append(f"failed to create pod {name_of(pod)}, err: {taken}")
                made.asked = max(made.asked, _asked_by([taken]))
            else:
                made.created.append(taken)

    def _has_changed(self, job: Job, command: str) -> bool:
        """Whether what was decided about a Job no longer holds: it goes, was changed, or was given another Command."""
        now = self._sources.jobs.get(job.key.name, job.key.namespace)
        if now is None or uid_of(now) != job.uid or is_deleting(now):
            return True
        if now["metadata"].get("generation") != job.obj["metadata"].get("generation"):
            return True
        waiting = commands_for(self._sources.commands, JOB, job.obj)
        return any(uid_of(one) != command and not is_deleting(one) for one in waiting)

    async def mark_pods(self, job: Job, pods: Iterable[Pod]) -> None:
        """Note on pods that it is us who kill them: what happens to them from now on is no job event."""
        unmarked = [pod for pod in pods if not pod.marked]
        if unmarked:
            self._raise_if_failed(job, await self._each(unmarked, lambda pod: self._mark_pod(job, pod)))

    async def restore_marks(self, job: Job, pods: Iterable[Pod]) -> Exception | None:
        """Write on pods again what somebody has taken off them, for those who come after us.

        Returns an error, if there was one: what else there is to do about the Job does not wait for this.
        """
        bare = [pod for pod in pods if pod.bare]
        if not bare:
            return None
        results = await self._each(bare, lambda pod: self._restore_pod(job, pod))
        return next((result for result in results if result is not None), None)

    async def delete_pods(self, job: Job, pods: Iterable[Pod]) -> None:
        staying = [pod for pod in pods if not pod.deleting]
        if staying:
            self._raise_if_failed(job, await self._each(staying, lambda pod: self._delete_pod(job, pod)))

    async def delete_group(self, job: Job, group: Obj | None) -> None:
        if group is None or is_deleting(group):
            return
        try:
            await self._client.delete(POD_GROUP, name_of(group), namespace_of(group), uid=uid_of(group))
        except NotFound:
            return
        self._runner.deleted(job.key, self._sources.groups, key_of(group), uid_of(group))

    async def note_waiting(self, job: Job, group: Obj | None, waiting: Iterable[tuple[Occurrence, datetime]]) -> None:
        """Note on a pod, or on the group, since when the answer to what happened to it waits."""
        for one, since in waiting:
            notes = {WAITING_SINCE: timestamp(since)}
            if one.pod:
                await self._annotate_pod(job, one.pod, one.pod_uid, notes)
            elif group is not None:
                await self.annotate_group(job, group, notes)

    async def annotate_group(self, job: Job, group: Obj, notes: Mapping[str, str | None]) -> None:
        patch = {"metadata": {"uid": uid_of(group), "annotations": notes}}
        try:
            written = await self._client.patch(POD_GROUP, name_of(group), patch, namespace_of(group))
        except NotFound:
            return
        self._runner.wrote(job.key, self._sources.groups, written)

    async def adopt_group(self, job: Job, group: Obj) -> None:
        """Have a disowned PodGroup belong to the Job again. Raises Conflict when it changed since it was read."""
        meta = group["metadata"]
        owners = [*(meta.get("ownerReferences") or ()), owner_reference(job.obj, JOB)]
        fence = {"uid": uid_of(group), "resourceVersion": meta["resourceVersion"]}
        patch = {"metadata": {**fence, "ownerReferences": owners}}
        written = await self._client.patch(POD_GROUP, name_of(group), patch, namespace_of(group))
        self._runner.wrote(job.key, self._sources.groups, written)

    async def put_group(self, job: Job, wanted: Obj, group: Obj | None, patch: Obj | None) -> None:
        """Create the PodGroup, or patch the one that is there."""
        try:
            if group is None:
                written = await self._client.create(POD_GROUP, wanted, view=RevisionView)
            elif patch is not None:
                fenced = {**patch, "metadata": {"uid": uid_of(group)}}
                written = await self._client.patch(POD_GROUP, name_of(group), fenced, job.key.namespace)
            else:
                return
        except ApiError as error:
            self._recorder.event(job.obj, WARNING, "PodGroupError", f"Failed to create PodGroup, err: {error}")
            raise
        self._runner.wrote(job.key, self._sources.groups, written)

    async def _take_pod(self, job: Job, pod: Obj, result: Obj | ApiError) -> Pod | ApiError:
        """A pod just created, or one of this Job's that was there already; Conflict while another's is going."""
        if isinstance(result, AlreadyExists):
            found = await self._client.find(POD, name_of(pod), namespace_of(pod))
            if found is None or not is_owned_by(found, job.obj):
                going = found is None or is_deleting(found) or _is_of_earlier(job, found)
                return Conflict(str(result)) if going else result
            result = found
        if isinstance(result, ApiError):
            return result
        self._runner.wrote(job.key, self._sources.pods, result)
        record = read_pod(result)
        if record is None:
            marks = ", ".join((JOB_NAME, TASK_SPEC, JOB_VERSION))
            return ApiError(
                f"the pod is there, but not with the annotations {marks} that tell which of the job's it is"
            )
        self._pods.expect(job.key.namespace, job.uid, record)
        return record

    async def _mark_pod(self, job: Job, pod: Pod) -> None:
        await self._annotate_pod(job, pod.name, pod.uid, {OUT_OF_SYNC: "true"})

    async def _restore_pod(self, job: Job, pod: Pod) -> None:
        await self._patch_pod(job, pod.name, pod.uid, marks_of(job.key.name, pod))

    async def _annotate_pod(self, job: Job, name: str, uid: str, notes: Mapping[str, str]) -> None:
        await self._patch_pod(job, name, uid, {"annotations": notes})

    async def _patch_pod(self, job: Job, name: str, uid: str, metadata: Obj) -> None:
        patch = {"metadata": {**metadata, "uid": uid}}
        try:
            written = await self._client.patch(POD, name, patch, job.key.namespace)
        except NotFound:
            return
        self._runner.wrote(job.key, self._sources.pods, written)

    async def _delete_pod(self, job: Job, pod: Pod) -> None:
        try:
            await self._client.delete(POD, pod.name, job.key.namespace, uid=pod.uid)
        except NotFound:
            return
        self._runner.deleted(job.key, self._sources.pods, Key(job.key.namespace, pod.name), pod.uid)

    def _raise_if_failed(self, job: Job, results: Sequence[Exception | None]) -> None:
        # A conflict means that our copy is old: nothing to tell, but to be looked at again.
        conflicts = [result for result in results if isinstance(result, Conflict)]
        errors = [str(result) for result in results if result is not None and not isinstance(result, Conflict)]
        if errors:
            self._recorder.event(job.obj, WARNING, "FailedDelete", f"Error deleting pods: {errors}")
            raise PodsFailed(f"failed to kill {len(errors)} pods of {len(results)}: {errors[0]}", _asked_by(results))
        if conflicts:
            raise conflicts[0]

    async def _each(self, items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R | Exception]:
        """Work on all items, a bounded number at a time; an error of one does not stop the others."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(item, work)) for item in items]
        return [task.result() for task in tasks]

    async def _one(self, item: T, work: Callable[[T], Awaitable[R]]) -> R | Exception:
        async with self._in_flight:
            try:
                return await work(item)
            except HeklaError as error:
                return error


def _asked_by(errors: Iterable[Exception | None]) -> float:
    """The most seconds that any of these asks for before another attempt."""
    return max((error.retry_after or 0.0 for error in errors if isinstance(error, ApiError)), default=0.0)


def _as_read(job: Job) -> Obj:
    """What has a server change this very Job, and only if it is still as it was read."""
    namespace, name = job.key
    version = job.obj["metadata"].get("resourceVersion", "")
    return {"name": name, "namespace": namespace, "uid": job.uid, "resourceVersion": version}


def _is_of_earlier(job: Job, pod: Obj) -> bool:
    """Whether a pod was made for an earlier Job of this name, and so goes with it."""
    owner = controller_of(pod)
    if owner is None or not JOB.owns_reference(owner):
        return False
    return str(owner["name"]) == job.key.name and str(owner["uid"]) != job.uid
