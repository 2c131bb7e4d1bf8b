"""A local, indexed copy of one kind, kept current by a watch.

Readers get the cached dicts themselves: never change one; copy first. `subscribe` callbacks run on the event loop,
in revision order, after the copy has been updated; they must be quick (put a key on a workqueue).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.meta import Key, key_of, revision_of, uid_of
from hekla.client.rest import Client
from hekla.client.views import View
from hekla.client.watch import Change, ChangeType, Relisted, follow


class Update(msgspec.Struct, frozen=True, gc=False):
    """What a subscriber hears. `old` is None for an object new to us, `new` is None for one that is gone.

    An object deleted and made again under the same name is heard as two updates: identity is the uid.
    """

    old: Obj | None
    new: Obj | None

    @property
    def obj(self) -> Obj:
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found


_IDENTITY = ("namespace", "name", "uid", "resourceVersion")

Subscriber = Callable[[Update], None]
Indexer = Callable[[Obj], Iterable[str]]
# Namespace and name, as a Key: but to make one of those takes longer than to look it up.
_Place = tuple[str, str]


class Informer:
    def __init__(
        self,
        client: Client,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, Indexer] | None = None,
        view: View | None = None,
        rng: random.Random | None = None,
        on_trouble: Callable[[Exception], None] | None = None,
        only_told: bool = False,
    ) -> None:
        """With a `view` (a TypedDict), the copy holds what that names and nothing else.

        With `only_told` it holds no more of an object than who it is: subscribers hear all of it, once, and keep what
        they need.
        """
        self.kind = kind
        self._view = view
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._rng = rng or random.Random()
        self._on_trouble = on_trouble
        self._only_told = only_told
        self._objects: dict[_Place, Obj] = {}
        self._indexers = dict(indexers or {})
        self._indexes: dict[str, dict[str, dict[_Place, Obj]]] = {name: {} for name in self._indexers}
        self._subscribers: list[Subscriber] = []
        self._synced = asyncio.Event()
        self._revision = 0
        self._progress: list[tuple[int, asyncio.Future[None]]] = []

    async def run(self) -> None:
        """Keep the copy current until cancelled."""
        changes = follow(
            self._client,
            self.kind,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            view=self._view,
            rng=self._rng,
            on_trouble=self._on_trouble,
        )
        async for news in changes:
            if isinstance(news, Relisted):
                self._replace(news.items, news.odd)
                self._advance(news.revision)
                self._synced.set()
            else:
                for change in news:
                    self._apply(change)

    async def synced(self) -> None:
        """Wait for the first full list."""
        await self._synced.wait()

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear every update from now on; what is already known is told at once, as new."""
        self._subscribers.append(subscriber)
        for obj in self._objects.values():
            subscriber(Update(None, obj))

    def get(self, name: str, namespace: str = "") -> Obj | None:
        return self._objects.get((namespace, name))

    def all(self) -> list[Obj]:
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[Obj]:
        return list(self._indexes[index].get(value, {}).values())

    def count(self, index: str, value: str) -> int:
        """How many `by_index` would give."""
        return len(self._indexes[index].get(value, ()))

    @property
    def revision(self) -> int:
        """Everything that happened to this kind up to here has been seen."""
        return self._revision

    async def wait_for(self, revision: int, seconds: float) -> bool:
        """Wait until our own write of `revision` has come back; False when it has not within `seconds`."""
        if self._revision >= revision:
            return True
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, seen)
        self._progress.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await seen
            return True
        except TimeoutError:
            return False
        finally:
            if entry in self._progress:
                self._progress.remove(entry)

    def _replace(self, items: list[Obj], odd: frozenset[Key] = frozenset()) -> None:
        # What cannot be read now stays as it was last read.
        incoming = {key_of(obj) for obj in items} | odd
        for key in [key for key in self._objects if key not in incoming]:
            self._remove(key)
        for obj in items:
            self._put(obj)

    def _apply(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self._advance(revision_of(change.obj))
            known = self._objects.get(key_of(change.obj))
            if known is not None and uid_of(known) == uid_of(change.obj):
                self._remove(key_of(change.obj), last=None if change.odd else change.obj)
        else:
            self._put(change.obj)

    def _put(self, obj: Obj) -> None:
        key, revision = key_of(obj), revision_of(obj)
        self._advance(revision)
        old = self._objects.get(key)
        if old is not None and uid_of(old) != uid_of(obj):
            self._remove(key)
            old = None
        if old is not None and revision_of(old) >= revision:
            return
        if self._indexers:
            self._index(key, old, obj)
        self._objects[key] = _identity_of(obj) if self._only_told else obj
        self._tell(Update(old, obj))

    def _remove(self, key: _Place, last: Obj | None = None) -> None:
        old = self._objects.pop(key)
        self._index(key, old, None)
        self._tell(Update(last or old, None))

    def _index(self, key: _Place, old: Obj | None, new: Obj | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in indexer(old) if old is not None else ():
                bucket = index.get(value)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del index[value]
            if new is not None:
                for value in indexer(new):
                    index.setdefault(value, {})[key] = new

    def _tell(self, update: Update) -> None:
        for subscriber in self._subscribers:
            subscriber(update)

    def _advance(self, revision: int) -> None:
        if revision <= self._revision:
            return
        self._revision = revision
        if self._progress:
            for entry in [entry for entry in self._progress if entry[0] <= revision]:
                self._progress.remove(entry)
                if not entry[1].done():
                    entry[1].set_result(None)


def _identity_of(obj: Obj) -> Obj:
    metadata = obj["metadata"]
    return {"metadata": {name: metadata[name] for name in _IDENTITY if name in metadata}}
