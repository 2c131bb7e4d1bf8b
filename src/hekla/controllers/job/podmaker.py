"""Makes the pods of one Job: from the template, with the claims, shaped by the plugins."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime

from hekla.api.batch import EVICTED_AT
from hekla.api.kinds import Obj
from hekla.api.meta import name_of, timestamp
from hekla.controllers.job.configured import Configured
from hekla.controllers.job.model import Job, Task
from hekla.controllers.job.pods import PodTemplate


class PodMaker:
    """`claims` maps names of claims to mount paths; `evicted` has the pods in whose place new ones come, and when."""

    def __init__(
        self,
        job: Job,
        *,
        claims: Mapping[str, str],
        plugins: Sequence[Configured],
        evicted: Mapping[str, datetime],
        rng: random.Random,
    ) -> None:
        self._job = job
        self._claims = claims
        self._plugins = plugins
        self._evicted = evicted
        self._rng = rng
        self._templates: dict[str, PodTemplate] = {}

    def make(self, task: Task, index: int) -> Obj:
        """Raises PluginRefused."""
        template = self._templates.get(task.name)
        if template is None:
            template = self._templates[task.name] = PodTemplate(self._job, task)
        pod = template.build(index, claims=self._claims, rng=self._rng, own=bool(self._plugins))
        for configured in self._plugins:
            configured.shape_pod(pod, self._job)
        if self._evicted and name_of(pod) in self._evicted:
            pod["metadata"]["annotations"][EVICTED_AT] = timestamp(self._evicted[name_of(pod)])
        return pod
