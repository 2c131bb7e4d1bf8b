"""Hearing of changes to the ConfigMaps and Secrets that running pods have mounted: one watch each for all pods."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hekla.api.kinds import CONFIG_MAP, SECRET, Kind, Obj
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.node.hooks.sources import SourceKind

KINDS: dict[SourceKind, Kind] = {"configmap": CONFIG_MAP, "secret": SECRET}
Hear = Callable[[Obj], None]


@dataclass
class _Watch:
    task: asyncio.Task[None]
    informer: Informer
    hearers: list[Hear] = field(default_factory=list)

    def tell(self, update: Update) -> None:
        # What is gone stays mounted as it was.
        if update.new is not None:
            for hear in list(self.hearers):
                hear(update.new)


class LivingSources:
    def __init__(self, client: Client, rng: random.Random, tasks: asyncio.TaskGroup) -> None:
        self._client = client
        self._rng = rng
        self._tasks = tasks
        self._watches: dict[tuple[SourceKind, str, str], _Watch] = {}

    @contextmanager
    def follow(self, namespace: str, sources: Iterable[tuple[SourceKind, str]], hear: Hear) -> Iterator[None]:
        """`hear` of each as it is, and then whenever it changes, until the block ends."""
        keys = [(kind, namespace, name) for kind, name in sources]
        for key in keys:
            self._join(key, hear)
        try:
            yield
        finally:
            for key in keys:
                self._leave(key, hear)

    def _join(self, key: tuple[SourceKind, str, str], hear: Hear) -> None:
        kind, namespace, name = key
        watch = self._watches.get(key)
        if watch is None:
            informer = Informer(
                self._client, KINDS[kind], namespace, field_selector=f"metadata.name={name}", rng=self._rng
            )
            watch = self._watches[key] = _Watch(self._tasks.create_task(informer.run()), informer)
            informer.subscribe(watch.tell)
        watch.hearers.append(hear)
        known = watch.informer.get(name, namespace)
        if known is not None:
            hear(known)

    def _leave(self, key: tuple[SourceKind, str, str], hear: Hear) -> None:
        watch = self._watches[key]
        watch.hearers.remove(hear)
        if not watch.hearers:
            watch.task.cancel()
            del self._watches[key]
