"""The loop of controllers that see objects of one kind off: whatever is being deleted is looked at until it is gone."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod

from hekla.api.kinds import Kind
from hekla.api.meta import is_deleting, name_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("builtins")


class DepartureController(ABC):
    """For kinds of the whole cluster: the key is the name."""

    kind: Kind

    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._informer = Informer(client, self.kind, rng=rng)
        self._queue: WorkQueue[str] = WorkQueue()

    async def run(self) -> None:
        self._informer.subscribe(self._observe)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informer.run())
                group.create_task(work(self._queue, self._reconcile, log))
        finally:
            self._queue.close()

    @abstractmethod
    async def _reconcile(self, name: str) -> None:
        """One look. Raises (NotEmpty, or what the server said) to be asked again later."""

    def _observe(self, update: Update) -> None:
        if update.new is not None and is_deleting(update.new):
            self._queue.add(name_of(update.new))
