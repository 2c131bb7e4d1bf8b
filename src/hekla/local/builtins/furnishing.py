"""What every namespace is given: the service account `default`, and the certificate by which its pods trust the API.

Whatever is missing or has been changed is put right, as often as it takes.
"""

from __future__ import annotations

import asyncio
import random

from hekla.api.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT, Kind, Obj
from hekla.api.meta import is_deleting, name_of, namespace_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import AlreadyExists, Forbidden, NotFound
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("furnishing")

_ACCOUNT = "default"
_CERTIFICATE = "kube-root-ca.crt"


class FurnishingController:
    def __init__(self, client: Client, root_ca: str, *, rng: random.Random) -> None:
        self._client = client
        self._data = {"ca.crt": root_ca} if root_ca else {}
        self._namespaces = Informer(client, NAMESPACE, rng=rng)
        self._accounts = Informer(client, SERVICE_ACCOUNT, rng=rng, field_selector=f"metadata.name={_ACCOUNT}")
        self._certificates = Informer(client, CONFIG_MAP, rng=rng, field_selector=f"metadata.name={_CERTIFICATE}")
        self._queue: WorkQueue[str] = WorkQueue()

    async def run(self) -> None:
        informers = (self._namespaces, self._accounts, self._certificates)
        self._namespaces.subscribe(lambda update: self._queue.add(name_of(update.obj)))
        self._accounts.subscribe(self._observe_content)
        self._certificates.subscribe(self._observe_content)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run())
                for informer in informers:
                    await informer.synced()
                group.create_task(work(self._queue, self._reconcile, log))
        finally:
            self._queue.close()

    def _observe_content(self, update: Update) -> None:
        self._queue.add(namespace_of(update.obj))

    async def _reconcile(self, namespace: str) -> None:
        found = self._namespaces.get(namespace)
        if found is None or is_deleting(found):
            return
        try:
            if self._accounts.get(_ACCOUNT, namespace) is None:
                metadata = {"name": _ACCOUNT, "namespace": namespace}
                await self._create(SERVICE_ACCOUNT, {"metadata": metadata})
            if self._data:
                await self._publish(namespace)
        except (NotFound, Forbidden):
            # It went, or began to go, while we looked.
            if await self._client.find(NAMESPACE, namespace) is not None:
                raise

    async def _publish(self, namespace: str) -> None:
        found = self._certificates.get(_CERTIFICATE, namespace)
        if found is None:
            metadata = {"name": _CERTIFICATE, "namespace": namespace}
            await self._create(CONFIG_MAP, {"metadata": metadata, "data": self._data})
        elif found.get("data") != self._data:
            await self._client.update(CONFIG_MAP, {**found, "data": self._data})

    async def _create(self, kind: Kind, obj: Obj) -> None:
        try:
            await self._client.create(kind, obj)
        except AlreadyExists:
            return
