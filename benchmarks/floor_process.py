"""What the input and output of one-pod Jobs cost alone: the requests and the watches of the controllers, no decision.

    python -m benchmarks.floor_process KUBECONFIG

Takes the place of `benchmarks.controllers_process` in `benchmarks.jobs --floor`. For each Job it makes a PodGroup, its
pod once the group is let in, and a status, with the controllers' own client and views. It keeps no copy of anything,
asks nothing of what comes, and would do it all again after a restart: no controller can need less with this client.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from benchmarks.controllers_process import answer_lines
from hekla.api.kinds import JOB, POD, POD_GROUP, Kind, Obj
from hekla.api.meta import name_of, owner_reference, uid_of
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.views import View
from hekla.client.watch import Change, ChangeType, Relisted, follow
from hekla.controllers.sources import PodView, RevisionView, StatusView, WrittenView
from hekla.local.supervisor import Ready, run_until_terminated
from hekla.log import configure_logging

_AT_ONCE = 256  # as many as the controllers have workers
_MOMENT = "2026-01-01T00:00:00Z"


class Floor:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._jobs: dict[str, Obj] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(JOB, WrittenView, self._job_changed))
            group.create_task(self._watch(POD_GROUP, WrittenView, self._group_changed))
            group.create_task(self._watch(POD, PodView, lambda _: None))

    async def _watch(self, kind: Kind, view: View, hear: Callable[[Change], None]) -> None:
        async for news in follow(self._client, kind, view=view, rng=random.Random()):
            for change in () if isinstance(news, Relisted) else news:
                hear(change)

    def _job_changed(self, change: Change) -> None:
        if change.type is ChangeType.ADDED:
            self._jobs[name_of(change.obj)] = change.obj
            self._begin(self._make_group(change.obj))

    def _group_changed(self, change: Change) -> None:
        if (change.obj.get("status") or {}).get("phase") == "Inqueue":
            job = self._jobs.pop(change.obj["metadata"]["ownerReferences"][0]["name"], None)
            if job is not None:
                self._begin(self._make_pod_and_status(job, name_of(change.obj)))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _make_group(self, job: Obj) -> None:
        amounts = {"cpu": "1", "memory": "1Gi", "requests.cpu": "1", "requests.memory": "1Gi"}
        needed = {**amounts, "pods": "1", "count/pods": "1"}
        spec = {"minMember": 1, "queue": "default", "minResources": needed, "minTaskMember": {"worker": 1}}
        group = _of(job, POD_GROUP, f"{name_of(job)}-{uid_of(job)}", {})
        async with self._turn:
            await self._client.create(POD_GROUP, {**group, "spec": spec, "status": {}}, view=RevisionView)

    async def _make_pod_and_status(self, job: Obj, group: str) -> None:
        name = name_of(job)
        marks = {f"volcano.sh/{mark}": name for mark in ("job-name", "queue-name", "task-index", "task-spec")}
        pod = _of(job, POD, f"{name}-worker-0", {**marks, "scheduling.k8s.io/group-name": group})
        pod["spec"] = {**job["spec"]["tasks"][0]["template"]["spec"], "schedulerName": "volcano"}
        status = {
            "state": {"phase": "Pending", "lastTransitionTime": _MOMENT},
            "conditions": [{"status": "Pending", "lastTransitionTime": _MOMENT}],
            "taskStatusCount": {"worker": {"phase": {"Pending": 1}}},
            "minAvailable": 1,
            "pending": 1,
        }
        async with self._turn:
            await self._client.create(POD, pod, view=PodView)
            await self._client.update_status(JOB, {**job, "spec": {}, "status": status}, view=StatusView)


def _of(job: Obj, kind: Kind, name: str, marks: Obj) -> Obj:
    metadata = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": {key: value for key, value in marks.items() if key.startswith("volcano.sh/")},
        "annotations": marks,
        "ownerReferences": [owner_reference(job, JOB)],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


async def _serve(kubeconfig: Path, ready: Ready) -> None:
    client = client_from_files([kubeconfig], user_agent="hekla-floor")
    async with client, asyncio.TaskGroup() as group:
        group.create_task(answer_lines(dict))
        group.create_task(Floor(client).run())
        ready("ready")


def main(arguments: list[str]) -> None:
    configure_logging("warning")

    async def run(ready: Ready) -> None:
        await _serve(Path(arguments[0]), ready)

    run_until_terminated(run, ready=lambda word: print(word, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
