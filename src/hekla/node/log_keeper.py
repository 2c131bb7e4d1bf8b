"""Forgetting the kept logs of Jobs that are gone. Where nothing is kept, no Jobs are watched."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

from hekla.api.kinds import JOB
from hekla.api.meta import uid_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.errors import ApiError, Disconnected
from hekla.log import get_logger
from hekla.node.kept_logs import bound_all, forget, jobs_with_logs

log = get_logger("node")

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 30.0


class LogKeeper:
    def __init__(self, client: Client, data_dir: Path, rng: random.Random) -> None:
        self._client = client
        self._data_dir = data_dir
        self._jobs = Informer(client, JOB, rng=rng, only_told=True)
        self._wake = asyncio.Event()

    def look(self) -> None:
        """Something may have been kept."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.to_thread(bound_all, self._data_dir)
        while not await self._kept():
            await self._woken()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            await self._jobs.synced()
            self._jobs.subscribe(self._hear)
            delay = _FIRST_RETRY
            while True:
                if await self._forget_the_gone():
                    delay = _FIRST_RETRY
                    await self._woken()
                else:
                    await self._woken(at_most=delay)
                    delay = min(delay * 2, _LONGEST_RETRY)

    async def _woken(self, at_most: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._wake.wait()
        self._wake.clear()

    def _hear(self, update: Update) -> None:
        if update.new is None:
            self._wake.set()

    async def _forget_the_gone(self) -> bool:
        """False when it could not be found out of every Job whether it is there: nobody will tell us of it again."""
        kept = await self._kept()
        present = {uid_of(job) for job in self._jobs.all()}
        known = True
        for job, (namespace, name) in kept.items():
            if job in present:
                continue
            gone = await self._is_gone(job, namespace, name)
            if gone:
                await asyncio.to_thread(forget, self._data_dir, job)
            known = known and gone is not None
        return known

    async def _kept(self) -> dict[str, tuple[str, str]]:
        try:
            return await asyncio.to_thread(jobs_with_logs, self._data_dir)
        except OSError as error:
            # What cannot be looked at must not end the node.
            log.warning("kept logs not looked at", error=error)
            return {}

    async def _is_gone(self, uid: str, namespace: str, name: str) -> bool | None:
        """Asked of the server itself: a Job whose first pod has just ended may not have been heard of yet. None when it
        does not say."""
        if not name:
            return True
        try:
            found = await self._client.find(JOB, name, namespace)
        except (ApiError, Disconnected) as error:
            log.warning("not known whether a job is gone", job=name, namespace=namespace, error=error)
            return None
        return found is None or uid_of(found) != uid
