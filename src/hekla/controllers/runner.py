"""The one loop all controllers use: keys come out of a workqueue, `reconcile` looks at each, failures come back.

Read your writes: after a reconcile has written something, the same key is not looked at again until the informers have
seen it, so a decision is never made on a picture older than our own last step and nothing is created twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hekla.api.kinds import Obj
from hekla.api.meta import Key, is_deleting, key_of, revision_of, uid_of
from hekla.client.informer import Informer
from hekla.client.workqueue import WorkQueue
from hekla.clock import Clock
from hekla.errors import Conflict, HeklaError
from hekla.log import get_logger

log = get_logger("controllers")

# A write that is not seen for this long will not be: the watch was re-listed past it.
_UNSEEN_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 5.0

Reconcile = Callable[[Key], Awaitable[float | None]]
_Seen = Callable[[], bool]


class Runner:
    """Runs `reconcile` for keys; it returns the seconds after which to look again, or None."""

    def __init__(self, name: str, reconcile: Reconcile, *, clock: Clock, workers: int = 4) -> None:
        self._name = name
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._queue: WorkQueue[Key] = WorkQueue()
        self._unseen: dict[Key, list[tuple[float, _Seen]]] = {}

    def enqueue(self, key: Key) -> None:
        self._queue.add(key)

    def enqueue_after(self, key: Key, seconds: float) -> None:
        self._queue.add_after(key, seconds)

    def wrote(self, key: Key, informer: Informer, obj: Obj) -> None:
        """`obj`, as the server answered, was written for `key`: wait until `informer` has come that far."""
        revision = revision_of(obj)
        self._await(key, lambda: informer.revision >= revision)

    def deleted(self, key: Key, informer: Informer, obj: Obj) -> None:
        """`obj` was deleted for `key`: wait until `informer` no longer shows it as alive."""
        where, uid = key_of(obj), uid_of(obj)
        self._await(key, lambda: _is_gone(informer.get(where.name, where.namespace), uid))

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
        if self._has_unseen(key):
            # The change we wait for enqueues the key; the timer is for the case that it never comes.
            self._queue.add_after(key, _LOOK_AGAIN_SECONDS)
            return
        try:
            again = await self._reconcile(key)
        except Conflict as error:
            log.debug("changed meanwhile", controller=self._name, key=key, error=error)
            self._queue.retry(key)
        except HeklaError as error:
            delay = self._queue.retry(key)
            log.warning("reconcile failed", controller=self._name, key=key, error=error, retry_in=f"{delay:.3f}s")
        except Exception:
            self._queue.retry(key)
            log.exception("reconcile broke", controller=self._name, key=key)
        else:
            self._queue.forget(key)
            if again is not None:
                self._queue.add_after(key, again)

    def _await(self, key: Key, seen: _Seen) -> None:
        if not seen():
            self._unseen.setdefault(key, []).append((self._clock.monotonic() + _UNSEEN_SECONDS, seen))

    def _has_unseen(self, key: Key) -> bool:
        waiting = self._unseen.get(key)
        if waiting is None:
            return False
        now = self._clock.monotonic()
        waiting = [(deadline, seen) for deadline, seen in waiting if deadline > now and not seen()]
        if waiting:
            self._unseen[key] = waiting
        else:
            del self._unseen[key]
        return bool(waiting)


def _is_gone(obj: Obj | None, uid: str) -> bool:
    return obj is None or uid_of(obj) != uid or is_deleting(obj)
