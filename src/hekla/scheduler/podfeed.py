"""Brings pods from the API server into the cache, reading of each only what the scheduler looks at."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from hekla.api.kinds import POD
from hekla.client.partial import Listed, Moved, follow_partly
from hekla.client.rest import Client
from hekla.client.watch import ChangeType
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.intake import NOT_UNDERSTOOD
from hekla.scheduler.podreading import PodForm

log = get_logger("scheduler")


class PodFeed:
    """`wake` is called when a decision may come out differently, `wake_later` when only what is told about a group
    may; `watched` with when a pod was made that waits."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        rng: random.Random,
        wake: Callable[[], None],
        wake_later: Callable[[], None],
        watched: Callable[[float], None] | None = None,
    ) -> None:
        self._client = client
        self._cache = cache
        self._rng = rng
        self._wake = wake
        self._wake_later = wake_later
        self._watched = watched
        self._synced = asyncio.Event()
        self._unseen: set[str] = set()

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        async for news in follow_partly(self._client, POD, PodForm, rng=self._rng):
            generation = self._cache.generation
            if self._take_page(news) if isinstance(news, Listed) else self._take_changes(news):
                self._wake()
            elif self._cache.generation != generation:
                self._wake_later()

    async def synced(self) -> None:
        """Wait for the first full list."""
        await self._synced.wait()

    def _take_page(self, page: Listed[PodForm]) -> int:
        """How many of the pods matter to decisions."""
        if page.first:
            self._unseen = self._cache.known_pods()
        changed = sum(map(self._put, page.items))
        self._unseen.difference_update(form.metadata.uid or "" for form in (*page.items, *page.odd))
        if page.last:
            changed += sum(map(self._cache.remove_pod, self._unseen))
            self._unseen = set()
            self._synced.set()
        return changed

    def _take_changes(self, moved: Moved[PodForm]) -> int:
        return sum(
            self._cache.remove_pod(form.metadata.uid or "") if type_ is ChangeType.DELETED else self._put(form)
            for type_, form in moved.changes
        )

    def _put(self, form: PodForm) -> bool:
        try:
            changed = self._cache.put_form(form)
        except NOT_UNDERSTOOD as error:
            log.warning("object not understood", kind=POD.kind, name=form.metadata.name, error=error)
            return False
        if changed and self._watched is not None:
            pod = self._cache.seen_pod(form.metadata.uid or "")
            if pod is not None and pod.ours and not pod.node:
                self._watched(pod.created)
        return changed
