"""A job plugin tried out on made-up jobs: what every plugin must keep to, and what its author expects of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hekla.api.job_plugins import flags_of, parse_arguments
from hekla.api.kinds import JOB, Obj
from hekla.api.meta import is_owned_by
from hekla.controllers.job.guarded import marks_in
from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.plugin import JobPlugin, Wanted
from hekla.controllers.job.pods import build_pod

_KEPT = ("name", "namespace", "uid", "labels", "ownerReferences")
_VARIABLE = {"name": "OF_THE_USER", "value": "kept"}


def sample_jobs(name: str, arguments: Sequence[str]) -> Iterator[Job]:
    """Two tasks that know each other, one with a dash in its name, a single pod, and one without any."""
    yield _job("pair", {"master": 1, "worker": 3}, name, arguments)
    yield _job("dashed", {"first-half": 2, "second-half": 2}, name, arguments)
    yield _job("single", {"main": 1}, name, arguments)
    yield _job("empty", {"main": 0}, name, arguments)


def made_of(factory: Any, job: Job, arguments: Sequence[str]) -> list[Obj]:
    """The job's objects and pods, as the plugin makes them."""
    plugin = _opened(factory, arguments)
    objects = [{**wanted.obj} for wanted in plugin.objects(job)]
    return [*objects, *(_shaped(plugin, job))]


def broken_rules(factory: Any, job: Job, arguments: Sequence[str]) -> Iterator[str]:
    plugin = _opened(factory, arguments)
    as_written = msgspec.json.encode(job.obj)
    made: list[Any] = plugin.objects(job)
    for each in made:
        if not isinstance(each, Wanted):
            yield f"objects() gives {type(each).__name__}, not Wanted"
        elif not is_owned_by(each.obj, job.obj) or each.obj["metadata"].get("namespace") != job.key.namespace:
            yield f"{each.kind.kind} {each.obj['metadata'].get('name')} is not the job's own: make it with owned()"
    for plain, shaped in zip(_pods(job), _shaped(plugin, job), strict=True):
        name = plain["metadata"]["name"]
        for field in _KEPT:
            if plain["metadata"].get(field) != shaped["metadata"].get(field):
                yield f"the {field} of pod {name} is not the plugin's to change"
        if marks_in(plain["metadata"].get("annotations")) != marks_in(shaped["metadata"].get("annotations")):
            yield f"the annotations of pod {name} are not the plugin's to change"
        # Containers may be added, and are the plugin's own.
        environments = {each["name"]: each.get("env") or () for each in shaped["spec"]["containers"]}
        if not all(_VARIABLE in environments.get(each["name"], ()) for each in plain["spec"]["containers"]):
            yield f"pod {name} has lost a variable that the user wrote"
    if msgspec.json.encode(job.obj) != as_written:
        yield "the job is not the plugin's to change"
    if made_of(factory, job, arguments) != made_of(factory, job, arguments):
        yield "the same job was answered differently the second time"


def is_part_of(wanted: Any, found: Any) -> bool:
    """Whether all that is wanted is there; of lists, each item somewhere."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and is_part_of(value, found[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and all(any(is_part_of(item, each) for each in found) for item in wanted)
    return bool(wanted == found)


def case_job(given: Obj | None, name: str, arguments: Sequence[str]) -> Job:
    """The job of a case: a whole one, or the first of the samples."""
    if given is None:
        return next(sample_jobs(name, arguments))
    metadata = {"namespace": "default", "uid": "uid-of-the-case", "name": "demo", **(given.get("metadata") or {})}
    return read_job({**given, "apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata})


def _opened(factory: Any, arguments: Sequence[str]) -> JobPlugin:
    opened: JobPlugin = factory(parse_arguments(flags_of(factory) or (), arguments))
    return opened


def _shaped(plugin: JobPlugin, job: Job) -> Iterator[Obj]:
    for pod in _pods(job):
        plugin.shape_pod(pod, job)
        yield msgspec.json.decode(msgspec.json.encode(pod))


def _pods(job: Job) -> Iterator[Obj]:
    """Pods of a task share parts of its template, so they are copies."""
    for task in job.tasks:
        for index in range(task.replicas):
            pod = build_pod(job, task, index, claims={}, rng=random.Random(index))
            yield {"apiVersion": "v1", "kind": "Pod", **msgspec.json.decode(msgspec.json.encode(pod))}


def _job(name: str, tasks: Mapping[str, int], plugin: str, arguments: Sequence[str]) -> Job:
    container = {"name": "main", "image": "busybox", "env": [_VARIABLE]}
    spec = {
        "minAvailable": sum(tasks.values()),
        "queue": "default",
        "schedulerName": "volcano",
        "plugins": {plugin: list(arguments)},
        "tasks": [
            {"name": task, "replicas": count, "minAvailable": count, "template": {"spec": {"containers": [container]}}}
            for task, count in tasks.items()
        ],
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    return read_job({"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec})
