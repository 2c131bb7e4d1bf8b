"""Following one job on a cluster: its objects kept current, its containers' logs as they are written.

`Follower` owns the watches and log streams of one job and tells a `Listener` what happens; how it looks is the
listener's business. A connection that breaks is taken up again where it broke; a cluster that stays away is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from hekla.api.batch import JOB_NAME, TASK_SPEC
from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import EVENT, JOB, POD, POD_GROUP, Kind, Obj
from hekla.api.meta import is_owned_by, labels_of, name_of, namespace_of, uid_of
from hekla.cli.drafts import Drafts
from hekla.cli.past_pods import PastPods, pod_order
from hekla.cli.progress import is_finished, predecessor_reason
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.errors import ApiError, Disconnected, NotFound

_DRAIN_SECONDS = 5.0
_LAST_NEWS_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0
_LONGEST_DELAY = 2.0


class Listener(Protocol):
    @property
    def draws_drafts(self) -> bool:
        """Whether it has a use for lines that have not ended."""

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        """Something of the job is different now."""

    def log_line(self, pod: str, line: str) -> None:
        """A container wrote a line."""

    def log_draft(self, pod: str, draft: str) -> None:
        """A container has begun a line, or written it over, and may do so again: a progress bar, a question."""

    def warned(self, reason: str, message: str) -> None:
        """A controller complains about the job."""

    def say(self, text: str) -> None:
        """Something about the following itself that a person should know."""


@dataclass(frozen=True, slots=True)
class LogWish:
    """Which logs, and how."""

    task: str = ""
    timestamps: bool = False
    tail: int | None = None


class Follower:
    def __init__(self, client: Client, job: Obj, listener: Listener, *, logs: LogWish | None) -> None:
        self._client = client
        self._listener = listener
        self._logs = logs
        self._uid = uid_of(job)
        self._namespace = namespace_of(job)
        rng = random.Random()
        self._job = self._informer(JOB, rng, field_selector=f"metadata.name={name_of(job)}")
        self._group = self._informer(POD_GROUP, rng, field_selector=f"metadata.name={name_of(job)}-{self._uid}")
        self._pods = self._informer(POD, rng, label_selector=f"{JOB_NAME}={name_of(job)}")
        about = f"involvedObject.uid={self._uid},type=Warning"
        self._warnings = self._informer(EVENT, rng, field_selector=about)
        self.past = PastPods(job)
        self._changed = asyncio.Event()
        self._streams: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._last_seen = job
        self._gone = False
        self._synced = False
        self._waits_for_earlier = False
        self._trouble_since: float | None = None
        self._lost: Disconnected | None = None
        self._unread: ApiError | Disconnected | None = None

    async def run(self) -> Obj:
        """Follow until the job ends (or is deleted, or we are cancelled); the job as last seen.

        Raises Disconnected when the cluster has been out of reach for a minute.
        """
        informers = [self._job, self._group, self._pods]
        for informer in informers:
            informer.subscribe(self._note)
        self._pods.subscribe(self.past.hear)
        self._warnings.subscribe(self._pass_on)
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(informer.run()) for informer in [*informers, self._warnings]]
            watches.append(group.create_task(self._tell_synced(informers)))
            while self._lost is None and not (self._synced and self._ended()):
                self._changed.clear()
                if self._synced:
                    self._look(group)
                if not (self._synced and self._ended()):
                    await self._changed.wait()
            if self._lost is None:
                await self._hear_last_news()
                self._look(group)
                await self._drain_logs()
            for task in [*watches, *self._streams.values()]:
                task.cancel()
        if self._lost is not None:
            raise self._lost
        return self._last_seen

    @property
    def deleted(self) -> bool:
        return self._gone

    def pods(self) -> list[Obj]:
        """The job's pods, in the order of their names' indexes."""
        mine = [pod for pod in self._pods.all() if is_owned_by(pod, self._last_seen)]
        return sorted(mine, key=pod_order)

    def group(self) -> Obj | None:
        found = self._group.all()
        return found[0] if found else None

    async def _tell_synced(self, informers: list[Informer]) -> None:
        for informer in informers:
            await informer.synced()
        self._gone = not self._job.all()
        self._synced = True
        self._changed.set()

    def _ended(self) -> bool:
        return self._gone or is_finished(self._last_seen)

    def _informer(
        self, kind: Kind, rng: random.Random, *, field_selector: str = "", label_selector: str = ""
    ) -> Informer:
        return Informer(
            self._client,
            kind,
            self._namespace,
            field_selector=field_selector,
            label_selector=label_selector,
            rng=rng,
            on_trouble=self._note_trouble,
        )

    def _note(self, update: Update) -> None:
        if self._trouble_since is not None:
            self._trouble_since = None
            self._listener.say("connected again")
        obj = update.obj
        if obj.get("kind") == JOB.kind and uid_of(obj) == self._uid:
            self._gone = update.new is None
            self._last_seen = obj
        self._changed.set()

    def _pass_on(self, update: Update) -> None:
        event = update.new
        # That a gang waits for room is seen on its PodGroup, with the reason.
        if event is not None and event.get("reason") != "PodGroupPending":
            self._listener.warned(str(event.get("reason", "")), str(event.get("message", "")).strip())

    def _note_trouble(self, error: Exception) -> None:
        if not isinstance(error, Disconnected):
            return
        now = asyncio.get_running_loop().time()
        if self._trouble_since is None:
            self._trouble_since = now
            self._listener.say("connection to the cluster lost, trying again …")
        elif now - self._trouble_since > _PATIENCE_SECONDS:
            self._lost = error
            self._changed.set()

    def _look(self, group: asyncio.TaskGroup) -> None:
        pods = self.pods()
        self._listener.changed(self._last_seen, self.group(), pods)
        _, waits = predecessor_reason(self._last_seen, self._pods.all())
        if waits and not self._waits_for_earlier:
            self._listener.say(f"{waits}; they are waited for")
        self._waits_for_earlier = bool(waits)
        if self._logs is not None:
            for pod in pods:
                if not self._logs.task or labels_of(pod).get(TASK_SPEC) == self._logs.task:
                    self._open_streams(group, pod, self._logs)

    def _open_streams(self, group: asyncio.TaskGroup, pod: Obj, wish: LogWish) -> None:
        status = pod.get("status") or {}
        containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        for container in containers:
            state = container.get("state") or {}
            if not (state.get("running") or state.get("terminated")):
                continue
            name, restarts = str(container["name"]), int(container.get("restartCount") or 0)
            key = (uid_of(pod), name, restarts)
            if key in self._streams:
                continue
            shown = name_of(pod) if len(containers) == 1 else f"{name_of(pod)}/{name}"
            # A first attempt that came and went between two looks is still to be had, as the previous one.
            missed = restarts > 0 and (uid_of(pod), name, restarts - 1) not in self._streams
            self._streams[key] = group.create_task(self._stream(name_of(pod), name, shown, wish, missed=missed))

    async def _stream(self, pod: str, container: str, shown: str, wish: LogWish, *, missed: bool) -> None:
        if missed:
            await self._read(pod, container, shown, {"previous": "true", **_query(wish)}, 0)
        written, delay = 0, 0.05
        while True:
            query = {"follow": "true", **_query(wish)}
            if self._listener.draws_drafts:
                # Ours alone: others' servers pass over it and give whole lines.
                query["unfinished"] = "true"
            if written and "tailLines" in query:
                # What came meanwhile cannot be told from what was there: show what comes from now on.
                query["tailLines"] = "0"
            try:
                written += await self._read(pod, container, shown, query, 0 if "tailLines" in query else written)
                self._unread = None
                return
            except NotFound:
                return
            except _Interrupted as broken:
                written += broken.written
            except (ApiError, Disconnected) as error:
                # Not there yet, or the node or the server is restarting.
                self._unread = error
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _read(self, pod: str, container: str, shown: str, query: dict[str, str], skip: int) -> int:
        """Tell lines until the log ends, without the first `skip`; how many lines were told."""
        path = f"{POD.path(self._namespace, pod, 'log')}?{urlencode({'container': container, **query})}"
        told, drafts = 0, Drafts()
        try:
            async for chunk in self._client.stream_chunks(path, accept="*/*"):
                lines = drafts.take(chunk)
                skip, lines = max(0, skip - len(lines)), lines[skip:]
                for line in lines:
                    self._listener.log_line(shown, line.decode(errors="replace"))
                told += len(lines)
                if drafts.rest and not skip:
                    self._listener.log_draft(shown, drafts.shown)
            if drafts.rest and not skip:
                self._listener.log_line(shown, drafts.rest.decode(errors="replace"))
                told += 1
        except (ApiError, Disconnected) as error:
            if told:
                raise _Interrupted(told) from error
            raise
        return told

    async def _hear_last_news(self) -> None:
        """The end of the job may be heard of before that of its pods."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_NEWS_SECONDS):
                while not self._gone and any(_may_run(pod) for pod in self.pods()):
                    self._changed.clear()
                    await self._changed.wait()

    async def _drain_logs(self) -> None:
        if not self._streams:
            return
        _, late = await asyncio.wait(self._streams.values(), timeout=_DRAIN_SECONDS)
        if not late:
            return
        containers = "1 container" if len(late) == 1 else f"{len(late)} containers"
        if self._unread is not None:
            self._listener.say(f"logs of {containers} could not be read: {self._unread}")
        else:
            self._listener.say(f"{containers} still had more to say; `hekla logs` has it all")


class _Interrupted(Exception):
    """A log broke off after some lines."""

    def __init__(self, written: int) -> None:
        super().__init__(written)
        self.written = written


def _may_run(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") not in FINISHED_POD_PHASES


def _query(wish: LogWish) -> dict[str, str]:
    query = {"timestamps": "true"} if wish.timestamps else {}
    return query if wish.tail is None else {**query, "tailLines": str(wish.tail)}
