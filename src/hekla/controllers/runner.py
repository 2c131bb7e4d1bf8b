"""The one loop all controllers use: keys come out of a workqueue, `reconcile` looks at each, failures come back.

A write that is refused because the object changed (Conflict) is let through to here: it is looked at again, quietly. So
is one whose object is gone (NotFound), the first time: what was deleted during a look is not there in the next; and
one into a namespace that is being deleted, until what the look is about has gone with it.

Read your writes: after a reconcile has written something, the same key is not looked at again until the informers have
seen it, so a decision is never made on a picture older than our own last step and nothing is created twice.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hekla.api.kinds import Obj
from hekla.api.meta import Key, is_deleting, revision_of, uid_of
from hekla.client.informer import Informer
from hekla.client.workqueue import Urgency, WorkQueue
from hekla.errors import ApiError, Conflict, HeklaError, NotFound
from hekla.log import get_logger

log = get_logger("controllers")

_LOOK_AGAIN_SECONDS = 5.0

Reconcile = Callable[[Key], Awaitable[float | None]]
Tell = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Unseen:
    """What was written for a key and has not come back yet."""

    written: dict[Informer, int] = field(default_factory=dict)
    deleted: list[tuple[Informer, Key, str]] = field(default_factory=list)

    def remain(self) -> bool:
        # What is gone stays gone, so each needs to be looked at only until then.
        while self.deleted and _is_gone(*self.deleted[-1]):
            self.deleted.pop()
        return bool(self.deleted) or any(informer.revision < revision for informer, revision in self.written.items())


class Runner:
    """Runs `reconcile` for keys; it returns the seconds after which to look again, or None."""

    def __init__(self, name: str, reconcile: Reconcile, *, workers: int = 4, told_at_a_time: int = sys.maxsize) -> None:
        """`told_at_a_time`: looks that have only something to tell, of those under way."""
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._queue: WorkQueue[Key] = WorkQueue(told_at_a_time=told_at_a_time)
        self._unseen: dict[Key, _Unseen] = {}
        self._held_back: set[Key] = set()
        self._to_tell: dict[Key, Tell] = {}
        # What came for a key while it was looked at, and is not known to be that look's own doing.
        self._came: dict[Key, set[tuple[Informer, int]]] = {}

    def enqueue(self, key: Key, urgency: Urgency = Urgency.USUAL) -> None:
        """Have the key looked at."""
        self._queue.add(key, urgency)

    def tell_last(self, key: Key, tell: Tell) -> None:
        """Have `tell` write what a look has found when nothing else waits. A look before that makes it needless."""
        self._to_tell[key] = tell
        self._queue.add(key, Urgency.TOLD)

    def enqueue_after(self, key: Key, seconds: float) -> None:
        self._queue.add_after(key, seconds)

    def hasten(self) -> None:
        """Have every key looked at now that waits for its time."""
        self._queue.hasten()

    def wrote(self, key: Key, informer: Informer, obj: Obj) -> None:
        """`obj`, as the server answered, was written for `key`: wait until `informer` has come that far."""
        revision = revision_of(obj)
        if informer.revision < revision:
            written = self._waiting_for(key).written
            written[informer] = max(revision, written.get(informer, 0))
        elif key in self._came:
            # The watch was faster than the answer.
            self._came[key].discard((informer, revision))

    def deleted(self, key: Key, informer: Informer, where: Key, uid: str) -> None:
        """The object `where`, with this uid, was deleted for `key`: wait until `informer` no longer shows it alive."""
        if not _is_gone(informer, where, uid):
            self._waiting_for(key).deleted.append((informer, where, uid))

    def enqueue_unless_written(self, key: Key, informer: Informer, obj: Obj, *, after: float = 0.0) -> None:
        """`obj` came: have the key looked at, unless it is as `key`'s last write to this kind has left it.

        During a look that cannot be told before the look has ended, with all answers to its writes.
        """
        revision = revision_of(obj)
        waiting = self._unseen.get(key)
        if waiting is not None and waiting.written.get(informer) == revision:
            self.heard(key)
        elif key in self._came:
            self._came[key].add((informer, revision))
        else:
            self._queue.add_after(key, after)

    def heard(self, key: Key) -> None:
        """Something came that is no news for the key, but may be what it was held back for."""
        if key in self._held_back:
            # It has had its turn already.
            self._queue.add(key, Urgency.AWAITED)

    async def run(self) -> None:
        """Work until cancelled. The informers must have synced."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._queue.close()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._look(key)
            finally:
                self._queue.done(key)

    async def _look(self, key: Key) -> None:
        tell = self._to_tell.pop(key, None)
        if tell is not None and not self._queue.has_only_to_be_told(key):
            tell = None
        # What has only to be told was decided before.
        if tell is None and self._has_unseen(key):
            # What we wait for brings the key back, or, where it came with a list, the timer does.
            self._held_back.add(key)
            self._queue.add_after(key, _LOOK_AGAIN_SECONDS)
            return
        self._held_back.discard(key)
        came = self._came[key] = set()
        try:
            again = await (self._reconcile(key) if tell is None else tell())
        except Conflict as error:
            log.debug("changed meanwhile", controller=self._name, key=key, error=error)
            self._queue.retry(key)
        except HeklaError as error:
            told = log.debug if _is_expected(error, self._queue.failures(key)) else log.warning
            asked = error.retry_after if isinstance(error, ApiError) else None
            delay = self._queue.retry(key, at_least=asked or 0.0)
            told("reconcile failed", controller=self._name, key=key, error=error, retry_in=f"{delay:.3f}s")
        except Exception:
            self._queue.retry(key)
            log.exception("reconcile broke", controller=self._name, key=key)
        else:
            self._queue.forget(key)
            if again is not None:
                self._queue.add_after(key, again)
        finally:
            del self._came[key]
            if came:
                self._queue.add(key)

    def _waiting_for(self, key: Key) -> _Unseen:
        waiting = self._unseen.get(key)
        if waiting is None:
            waiting = self._unseen[key] = _Unseen()
        return waiting

    def _has_unseen(self, key: Key) -> bool:
        waiting = self._unseen.get(key)
        if waiting is None:
            return False
        # However late a watch is, it comes: by an event, or by a list that is newer than the write.
        if waiting.remain():
            return True
        del self._unseen[key]
        return False


def _is_expected(error: HeklaError, failures: int) -> bool:
    if isinstance(error, NotFound):
        return not failures
    return isinstance(error, ApiError) and error.namespace_goes


def _is_gone(informer: Informer, where: Key, uid: str) -> bool:
    obj = informer.get(where.name, where.namespace)
    return obj is None or uid_of(obj) != uid or is_deleting(obj)
