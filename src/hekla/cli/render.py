"""`hekla render FILE`: every object a job would become, after its plugins, with no cluster at hand."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import click
import msgspec

from hekla.api.job_plugins import registered
from hekla.api.kinds import JOB, Obj
from hekla.cli.manifest import BadFile, Document, read_manifest
from hekla.cli.output import print_document
from hekla.cli.parameters import output_option
from hekla.cli.submit import check_documents, create_document, only_job
from hekla.controllers.job.configured import Configured, configured_plugins
from hekla.controllers.job.model import Job, Task, read_job
from hekla.controllers.job.plugin import Wanted
from hekla.controllers.job.podgroup import build_pod_group
from hekla.controllers.job.pods import build_pod
from hekla.controllers.job.volumes import claims_of, with_claim_names
from hekla.local.offline import offline_cluster, take_for_granted

# A server gives every job an identity of its own; the same file must give the same text each time.
_UID = "00000000-0000-0000-0000-000000000000"
_MADE_LATER = "made when the job is created"


@click.command()
@click.argument("file")
@click.option("--task", default="", help="Only the pods of this task.")
@output_option("yaml", "json")
def render(file: str, task: str, output: str) -> None:
    """Print what the job in FILE becomes: its PodGroup, what its plugins add, and every pod.

    \b
    Example:  hekla render examples/hello-gang/job.yaml --task worker
    """
    documents = read_manifest(file)
    document = only_job(documents, "render")
    check_documents([document], "default")
    job = asyncio.run(_admitted(document))
    if task and job.task(task) is None:
        raise BadFile(f"{file}: no task is called {task!r}; there are {', '.join(one.name for one in job.tasks)}")
    objects = render_pods(job, task) if task else render_job(job)
    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "items": objects}, "json")
        return
    for number, obj in enumerate(objects):
        if number:
            click.echo("---")
        print_document(obj, "yaml")


def render_job(job: Job) -> list[Obj]:
    """The job's PodGroup, the objects of its plugins, its pods; as the controller would send them."""
    wanted = [want for configured in _plugins(job) for want in configured.objects(job)]
    return [build_pod_group(job, {}), *map(_shown, wanted), *render_pods(job)]


def render_pods(job: Job, task: str = "") -> list[Obj]:
    plugins = _plugins(job)
    return [
        build_shaped_pod(job, plugins, one, index)
        for one in job.tasks
        if task in ("", one.name)
        for index in range(one.replicas)
    ]


def build_shaped_pod(job: Job, plugins: list[Configured], task: Task, index: int) -> Obj:
    """One pod as the controller would create it. Pods of a task share parts of its template, so it is a copy."""
    pod = build_pod(job, task, index, claims=claims_of(job), rng=random.Random(index))
    for configured in plugins:
        configured.shape_pod(pod, job)
    copy: Any = msgspec.json.decode(msgspec.json.encode(pod))
    return {"apiVersion": "v1", "kind": "Pod", **copy}


async def _admitted(document: Document) -> Job:
    """The Job as a server would store it: defaulted, with names for the claims it makes."""
    async with offline_cluster(lambda text: click.echo(f"warning: {text}", err=True)) as client:
        await take_for_granted(client, JOB, document.obj)
        made = await create_document(client, document)
    job = read_job({**made, "metadata": {**made["metadata"], "uid": _UID}})
    named = with_claim_names(job, random.Random(0))
    return job if named is None else read_job(named)


def _plugins(job: Job) -> list[Configured]:
    return configured_plugins(job, registered())


def _shown(wanted: Wanted) -> Obj:
    """An object of a plugin; content that is made once, such as a key pair, is only named."""
    if wanted.once is None:
        return wanted.obj
    return {**wanted.obj, "metadata": {**wanted.obj["metadata"], "annotations": {"hekla.dev/content": _MADE_LATER}}}
