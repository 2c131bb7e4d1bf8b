"""Deleting a CustomResourceDefinition: its objects go first, then the definition itself."""

from __future__ import annotations

import asyncio
import random

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Obj
from hekla.api.meta import is_deleting, name_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import HeklaError, NotFound
from hekla.local.builtins.emptying import NotEmpty, is_emptied
from hekla.log import get_logger

log = get_logger("definitions")

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionController:
    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._informer = Informer(client, CUSTOM_RESOURCE_DEFINITION, rng=rng)
        self._queue: WorkQueue[str] = WorkQueue()

    async def run(self) -> None:
        self._informer.subscribe(self._observe)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informer.run())
                group.create_task(self._work())
        finally:
            self._queue.close()

    def _observe(self, update: Update) -> None:
        if update.new is not None and is_deleting(update.new):
            self._queue.add(name_of(update.new))

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            try:
                await self._reconcile(name)
                self._queue.forget(name)
            except (HeklaError, OSError) as error:
                delay = self._queue.retry(name)
                log.debug("will look again", definition=name, seconds=delay, error=error)
            finally:
                self._queue.done(name)

    async def _reconcile(self, name: str) -> None:
        definition = await self._client.find(CUSTOM_RESOURCE_DEFINITION, name)
        if definition is None or not is_deleting(definition):
            return
        finalizers = definition["metadata"].get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            return
        if not await is_emptied(self._client, _served_kind(definition)):
            raise NotEmpty(f"{name}: some objects remain")
        kept = [each for each in finalizers if each != CLEANUP_FINALIZER]
        patch = {"metadata": {"uid": definition["metadata"]["uid"], "finalizers": kept or None}}
        try:
            await self._client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch)
        except NotFound:
            return


def _served_kind(definition: Obj) -> Kind:
    spec = definition["spec"]
    version = next(each for each in spec["versions"] if each.get("served"))
    return Kind(
        spec["group"], version["name"], spec["names"]["kind"], spec["names"]["plural"], spec["scope"] == "Namespaced"
    )
