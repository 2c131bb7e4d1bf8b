"""Following one job on a cluster: its objects kept current, its containers' logs as they are written.

`Follower` owns the watches and log streams of one job and tells a `Listener` what happens; how it looks is the
listener's business.
"""

from __future__ import annotations

import asyncio
import random
from typing import Protocol
from urllib.parse import urlencode

from hekla.api.batch import JOB_NAME
from hekla.api.kinds import JOB, POD, POD_GROUP, Kind, Obj
from hekla.api.meta import is_owned_by, name_of, namespace_of, uid_of
from hekla.cli.progress import is_finished
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.errors import ApiError, Disconnected

_LOGS_DRAIN_SECONDS = 5.0
_LOG_ATTEMPTS = 20


class Listener(Protocol):
    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None:
        """Something of the job is different now."""

    def log_line(self, pod: str, line: str) -> None:
        """A container wrote a line."""


class Follower:
    def __init__(self, client: Client, job: Obj, listener: Listener, *, logs: bool = True) -> None:
        self._client = client
        self._listener = listener
        self._logs = logs
        self._uid = uid_of(job)
        self._namespace = namespace_of(job)
        rng = random.Random()
        self._job = self._informer(JOB, rng, field_selector=f"metadata.name={name_of(job)}")
        self._group = self._informer(POD_GROUP, rng, field_selector=f"metadata.name={name_of(job)}-{self._uid}")
        self._pods = self._informer(POD, rng, label_selector=f"{JOB_NAME}={name_of(job)}")
        self._changed = asyncio.Event()
        self._streams: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._last_seen = job
        self._gone = False

    async def run(self) -> Obj:
        """Follow until the job ends (or is deleted, or we are cancelled); the job as last seen."""
        informers = [self._job, self._group, self._pods]
        for informer in informers:
            informer.subscribe(self._note)
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(informer.run()) for informer in informers]
            for informer in informers:
                await informer.synced()
            while not self._gone and not is_finished(self._last_seen):
                self._changed.clear()
                self._look(group)
                if not is_finished(self._last_seen):
                    await self._changed.wait()
            self._look(group)
            await self._drain_logs()
            for task in watches:
                task.cancel()
        return self._last_seen

    @property
    def deleted(self) -> bool:
        return self._gone

    def pods(self) -> list[Obj]:
        """The job's pods, in the order of their names' indexes."""
        mine = [pod for pod in self._pods.all() if is_owned_by(pod, self._last_seen)]
        return sorted(mine, key=_pod_order)

    def group(self) -> Obj | None:
        found = self._group.all()
        return found[0] if found else None

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
        )

    def _note(self, update: Update) -> None:
        obj = update.obj
        if obj.get("kind") == JOB.kind and uid_of(obj) == self._uid:
            self._gone = update.new is None
            self._last_seen = obj
        self._changed.set()

    def _look(self, group: asyncio.TaskGroup) -> None:
        pods = self.pods()
        self._listener.changed(self._last_seen, self.group(), pods)
        if self._logs:
            for pod in pods:
                self._open_streams(group, pod)

    def _open_streams(self, group: asyncio.TaskGroup, pod: Obj) -> None:
        status = pod.get("status") or {}
        for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            state = container.get("state") or {}
            if not (state.get("running") or state.get("terminated")):
                continue
            key = (uid_of(pod), str(container["name"]), int(container.get("restartCount") or 0))
            if key not in self._streams:
                self._streams[key] = group.create_task(self._stream(name_of(pod), str(container["name"])))

    async def _stream(self, pod: str, container: str) -> None:
        query = urlencode({"container": container, "follow": "true"})
        path = f"{POD.path(self._namespace, pod, 'log')}?{query}"
        for attempt in range(_LOG_ATTEMPTS):
            written = False
            try:
                async for line in self._client.stream_lines(path, accept="*/*"):
                    written = True
                    self._listener.log_line(pod, line.decode(errors="replace"))
                return
            except (ApiError, Disconnected):
                # Not there yet, or the node is restarting; after the first line a second try would repeat lines.
                if written:
                    return
                await asyncio.sleep(0.05 * (attempt + 1))

    async def _drain_logs(self) -> None:
        if self._streams:
            _, late = await asyncio.wait(self._streams.values(), timeout=_LOGS_DRAIN_SECONDS)
            for task in late:
                task.cancel()


def _pod_order(pod: Obj) -> tuple[str, int, str]:
    name = name_of(pod)
    stem, _, index = name.rpartition("-")
    return (stem, int(index), name) if index.isdigit() else (name, 0, name)
