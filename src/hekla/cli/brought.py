"""What a file brings beside its job and a cluster does not have yet: `hekla plan` takes it for there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

import click

from hekla.api.kinds import JOB, NAMESPACE, POD, PRIORITY_CLASS, QUEUE, Obj, kind_of
from hekla.api.meta import name_of, namespace_of
from hekla.cli.manifest import Document
from hekla.cli.planned import as_if_stored
from hekla.cli.submit import require_kind
from hekla.client.rest import Client
from hekla.errors import AlreadyExists
from hekla.local.offline import offline_cluster, take_for_granted
from hekla.scheduler.rehearsal import KINDS

_ASKED_FOR = (NAMESPACE, PRIORITY_CLASS, QUEUE)  # without these a server refuses a job that names them
_OF_CLASSES = ("apiVersion", "kind", "value", "globalDefault", "preemptionPolicy")


async def brought_by(client: Client, documents: Iterable[Document]) -> list[Obj]:
    """Of a file's objects, those that make a difference to the scheduler and are not there."""
    others = (one for one in documents if (kind := require_kind(one)) in KINDS and kind is not POD)
    missing = [
        one.obj
        for one in others
        if await client.find(require_kind(one), name_of(one.obj), namespace_of(one.obj) or None) is None
    ]
    return [as_if_stored(obj) for obj in missing]


@asynccontextmanager
async def judge_with(brought: Sequence[Obj], client: Client, cluster: Iterable[Obj], job: Obj) -> AsyncIterator[Client]:
    """Who says what becomes of a job and its pods: the cluster's server, or, where the file brings what that one would
    ask for first, one in this process that has it."""
    if not any(kind_of(obj) in _ASKED_FOR for obj in brought):
        yield client
        return
    async with offline_cluster(lambda text: click.echo(f"warning: {text}", err=True)) as offline:
        for known in (*cluster, *brought):
            if kind_of(known) is PRIORITY_CLASS:
                given = {field: known[field] for field in _OF_CLASSES if field in known}
                with suppress(AlreadyExists):
                    await offline.create(PRIORITY_CLASS, {**given, "metadata": {"name": name_of(known)}})
        await take_for_granted(offline, JOB, job)
        for pod in _pods_of(job):
            await take_for_granted(offline, POD, pod)
        yield offline


def _pods_of(job: Obj) -> Iterator[Obj]:
    """As far as they are written as pods are: the rest is told when the job is judged."""
    spec = job.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    for task in tasks if isinstance(tasks, list) else ():
        template = task.get("template") if isinstance(task, dict) else None
        if isinstance(template, dict):
            yield {"metadata": {"namespace": namespace_of(job)}, "spec": template.get("spec")}
