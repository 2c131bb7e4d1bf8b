"""What Jobs own of a kind that others have, too: whoever subscribes hears at once when one of these is gone.

Of all objects of the kind only the metadata is read, and only those of Jobs are remembered: whose they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TypedDict

import msgspec

from hekla.api.kinds import JOB, Kind, Obj
from hekla.api.meta import Key, controller_of, key_of
from hekla.client.metadata import MetadataTransport
from hekla.client.rest import Client
from hekla.client.watch import Change, ChangeType, Relisted, follow


class Lost(msgspec.Struct, frozen=True):
    """An object that is gone, and the Job that owned it."""

    kind: Kind
    name: str
    job: Key
    job_uid: str


class _Reference(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    resourceVersion: str
    ownerReferences: list[_Reference] | None


class _OwnedView(TypedDict, total=False):
    metadata: _Metadata


class Belongings:
    def __init__(self, client: Client, kind: Kind, rng: random.Random) -> None:
        self._client = client.through(MetadataTransport(client.transport))
        self._kind = kind
        self._rng = rng
        self._owners: dict[Key, Lost] = {}
        self._subscribers: list[Callable[[Lost], None]] = []

    def subscribe(self, subscriber: Callable[[Lost], None]) -> None:
        self._subscribers.append(subscriber)

    async def run(self) -> None:
        """Watch until cancelled."""
        async for news in follow(self._client, self._kind, view=_OwnedView, rng=self._rng):
            if isinstance(news, Relisted):
                self._replace(news.items)
            else:
                for change in news:
                    self._take(change)

    def _replace(self, items: Iterable[Obj]) -> None:
        before, self._owners = self._owners, {}
        for obj in items:
            self._put(obj)
        for key, lost in before.items():
            if self._owners.get(key) != lost:
                self._tell(lost)

    def _take(self, change: Change) -> None:
        if change.type is not ChangeType.DELETED:
            self._put(change.obj)
            return
        lost = self._owners.pop(key_of(change.obj), None)
        if lost is not None:
            self._tell(lost)

    def _put(self, obj: Obj) -> None:
        key, owner = key_of(obj), controller_of(obj)
        if owner is not None and JOB.owns_reference(owner):
            job = Key(key.namespace, str(owner["name"]))
            self._owners[key] = Lost(self._kind, key.name, job, str(owner["uid"]))
        else:
            self._owners.pop(key, None)

    def _tell(self, lost: Lost) -> None:
        for subscriber in self._subscribers:
            subscriber(lost)
