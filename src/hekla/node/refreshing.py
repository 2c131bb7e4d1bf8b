"""Keeping a running pod's files current: new tokens before the old ones end, ConfigMaps and Secrets as they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hekla.api.kinds import Obj
from hekla.api.meta import name_of, namespace_of
from hekla.errors import ApiError, Disconnected
from hekla.log import get_logger
from hekla.node.hooks.sources import MissingSource, mounted
from hekla.node.living_sources import LivingSources
from hekla.node.starter import Starter

log = get_logger("node")

# Until the next look at a pod that has no tokens yet, or could get none; none lasts less than ten minutes.
_PAUSE = 30.0
# A pod younger than this has its sources as they are, and most pods of a batch never grow older.
_YOUTH = 5.0

Current = Callable[[], tuple[Obj, bool]]


class Refresher:
    """`current`: the pod, and whether anything of it runs."""

    def __init__(self, starter: Starter, sources: LivingSources | None, current: Current) -> None:
        self._starter = starter
        self._sources = sources
        self._current = current
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """As long as the pod runs; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._replace_tokens())
            if self._sources is not None:
                tasks.create_task(self._follow(self._sources))

    async def _replace_tokens(self) -> None:
        while True:
            pod, running = self._current()
            due = self._starter.refresh_after(pod)
            if due:
                await asyncio.sleep(due)
            elif due is None or not running:
                await asyncio.sleep(_PAUSE)
            else:
                await self._refresh()

    async def _follow(self, sources: LivingSources) -> None:
        pod, _ = self._current()
        wanted = mounted(pod)
        if not wanted:
            return
        await asyncio.sleep(_YOUTH)
        with sources.follow(namespace_of(pod), wanted, self._hear):
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._refresh()

    def _hear(self, source: Obj) -> None:
        if not self._starter.has_written(source):
            self._changed.set()

    async def _refresh(self) -> None:
        pod, _ = self._current()
        try:
            await self._starter.refresh(pod)
        except (MissingSource, ApiError, Disconnected, OSError) as error:
            log.warning("files not renewed yet", pod=name_of(pod), error=error)
            await asyncio.sleep(_PAUSE)
            self._changed.set()
