"""Deleting a namespace: everything in it goes first, then the namespace itself."""

from __future__ import annotations

import asyncio
import random

import msgspec

from hekla.api.kinds import NAMESPACE, Obj
from hekla.api.meta import is_deleting, name_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import HeklaError, NotFound
from hekla.local.builtins.emptying import NotEmpty, is_emptied
from hekla.local.builtins.resources import discover
from hekla.log import get_logger

log = get_logger("namespaces")

_FINALIZER = "kubernetes"


class NamespaceController:
    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._informer = Informer(client, NAMESPACE, rng=rng)
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
                log.debug("will look again", namespace=name, seconds=delay, error=error)
            finally:
                self._queue.done(name)

    async def _reconcile(self, name: str) -> None:
        namespace = await self._client.find(NAMESPACE, name)
        if namespace is None or not is_deleting(namespace):
            return
        kinds = [kind for kind in await discover(self._client) if kind.namespaced]
        remaining = [kind.plural for kind in kinds if not await is_emptied(self._client, kind, name)]
        if remaining:
            raise NotEmpty(f"{name}: {', '.join(remaining)} remain")
        await self._finalize(namespace)
        log.info("removed", namespace=name)

    async def _finalize(self, namespace: Obj) -> None:
        finalizers = [each for each in (namespace.get("spec") or {}).get("finalizers") or () if each != _FINALIZER]
        wanted = {**namespace, "spec": {**(namespace.get("spec") or {}), "finalizers": finalizers}}
        try:
            path = NAMESPACE.path(name=name_of(namespace), subresource="finalize")
            headers = {"Content-Type": "application/json"}
            await self._client.raw("PUT", path, body=msgspec.json.encode(wanted), headers=headers)
        except NotFound:
            return
