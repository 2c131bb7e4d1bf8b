"""Stands between the controller and a plugin that did not come with Hekla: nothing wrong of it gets any further.

It is shown a copy of the Job, because the controller's own is what every later look decides from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from hekla.api.batch import JOB_NAME, JOB_NAMESPACE, JOB_RETRY_COUNT, JOB_VERSION, TASK_INDEX, TASK_SPEC
from hekla.api.job_plugins import Flag
from hekla.api.kinds import Obj
from hekla.api.meta import copy_of, is_owned_by, name_of, namespace_of
from hekla.api.scheduling import GROUP_NAME
from hekla.controllers.job.model import Job, read_job
from hekla.controllers.job.patience import Endless, Patience
from hekla.controllers.job.plugin import JobPlugin, PluginRefused, Wanted

# By these a pod is found again, as one of its Job and of its gang.
_IDENTITY = ("name", "namespace", "ownerReferences")
_NOTED = ("labels", "annotations")
_MARKS = (JOB_NAME, JOB_NAMESPACE, TASK_SPEC, TASK_INDEX, JOB_VERSION, JOB_RETRY_COUNT, GROUP_NAME)


class Guarded:
    flags: ClassVar[tuple[Flag, ...] | None] = None
    records: ClassVar[bool] = True

    def __init__(self, name: str, plugin: JobPlugin, patience: Patience | Endless) -> None:
        self._name = name
        self._plugin = plugin
        self._patience = patience
        self._shown: tuple[Job, Job] | None = None

    def shape_pod(self, pod: Obj, job: Job) -> None:
        """Raises PluginRefused, and whatever the plugin raises."""
        name, before = name_of(pod), copy_of({field: pod["metadata"].get(field) for field in (*_IDENTITY, *_NOTED)})
        shown = self._copy(job)
        with self._patience.calling(self._name):
            self._plugin.shape_pod(pod, shown)
        for field in _changed(before, pod["metadata"]):
            raise PluginRefused(f"plugin {self._name}: the {field} of pod {name} is not the plugin's to change")
        # What is no JSON fails here, and not among the pods of others.
        msgspec.json.encode(pod)

    def objects(self, job: Job) -> list[Wanted]:
        """Raises PluginRefused, and whatever the plugin raises."""
        shown = self._copy(job)
        with self._patience.calling(self._name):
            made: list[Any] = list(self._plugin.objects(shown))
        for each in made:
            problem = _problem(each, job)
            if problem:
                raise PluginRefused(f"plugin {self._name}: {problem}")
            msgspec.json.encode(each.obj)
        return made

    def _copy(self, job: Job) -> Job:
        if self._shown is None or self._shown[0] is not job:
            self._shown = job, read_job(copy_of(job.obj))
        return self._shown[1]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    yield from (field for field in _IDENTITY if after.get(field) != before[field])
    yield from (field for field in _NOTED if marks_in(after.get(field)) != marks_in(before[field]))


def marks_in(notes: Mapping[str, str] | None) -> dict[str, str]:
    """Those of a pod's labels or annotations by which it is found again."""
    return {key: value for key, value in (notes or {}).items() if key in _MARKS}


def _problem(wanted: Any, job: Job) -> str:
    if not isinstance(wanted, Wanted):
        return f"objects() gives {type(wanted).__name__}, not Wanted"
    what = f"{wanted.kind.kind} {name_of(wanted.obj)}"
    if namespace_of(wanted.obj) != job.key.namespace or not is_owned_by(wanted.obj, job.obj):
        return f"{what} is not the job's own: make it with owned()"
    missing = [field for field in wanted.followed if field not in wanted.obj]
    return f"{what} has no {missing[0]} to follow" if missing else ""
