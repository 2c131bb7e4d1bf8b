"""Objects that are not there yet, as they would be: for rehearsals of what becomes of a job."""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import POD, Obj
from hekla.api.meta import name_of, timestamp
from hekla.cli.render import build_shaped_pod
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.controllers.job.configured import Configured
from hekla.controllers.job.model import Job, Task


async def planned_pods(client: Client, job: Job, tasks: Iterable[Task], plugins: list[Configured]) -> list[Obj]:
    """The pods as the controller would make them, with the server's defaults: asked for once a task."""
    pods: list[Obj] = []
    for task in tasks:
        defaults: Obj | None = None
        for index in range(task.replicas):
            pod = build_shaped_pod(job, plugins, task, index)
            if defaults is None:
                defaults = (await client.create(POD, nameless(pod), dry_run=True))["spec"]
            pods.append(as_if_stored({**pod, "spec": defaults}))
    return pods


def nameless(obj: Obj) -> Obj:
    """The object with a name for the server to make up, so that one that exists is not in the way."""
    metadata = dict(obj["metadata"])
    if "name" in metadata:
        metadata["generateName"] = f"{metadata.pop('name')}-"
    return {**obj, "metadata": metadata}


def as_if_stored(obj: Obj) -> Obj:
    """With what a server would add: an identity and an age."""
    now = timestamp(SystemClock().now())
    metadata = {**obj["metadata"], "uid": f"planned-{name_of(obj)}", "creationTimestamp": now, "resourceVersion": "1"}
    return {**obj, "metadata": metadata, "status": {"phase": "Pending"}}
