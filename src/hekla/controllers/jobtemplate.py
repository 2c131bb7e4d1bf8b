"""JobTemplates know the jobs that were made from them."""

from __future__ import annotations

from hekla.api.kinds import JOB_TEMPLATE
from hekla.api.meta import Key, is_deleting, key_of, labels_of, name_of
from hekla.client.informer import Update
from hekla.client.rest import Client
from hekla.controllers.runner import Runner
from hekla.controllers.sources import CREATED_BY_TEMPLATE, TEMPLATE, Sources


class JobTemplateController:
    def __init__(self, client: Client, sources: Sources) -> None:
        self._client = client
        self._templates = sources.templates
        self._jobs = sources.jobs
        self.runner = Runner("jobtemplate", self.reconcile, workers=1)
        sources.templates.subscribe(lambda update: self.runner.enqueue(key_of(update.obj)))
        sources.jobs.subscribe(self._job_changed)

    async def reconcile(self, key: Key) -> float | None:
        template = self._templates.get(key.name, key.namespace)
        if template is None or is_deleting(template):
            return None
        jobs = self._jobs.by_index(TEMPLATE, f"{key.namespace}.{key.name}")
        names = sorted(name_of(job) for job in jobs)
        # parity: the last job going leaves the list as it was.
        if names and names != (template.get("status") or {}).get("jobDependsOnList"):
            patch = {"status": {"jobDependsOnList": names}}
            written = await self._client.patch(JOB_TEMPLATE, key.name, patch, key.namespace, subresource="status")
            self.runner.wrote(key, self._templates, written)
        return None

    def _job_changed(self, update: Update) -> None:
        namespace, dot, name = labels_of(update.obj).get(CREATED_BY_TEMPLATE, "").partition(".")
        if dot and update.old is None:
            self.runner.enqueue(Key(namespace, name))
