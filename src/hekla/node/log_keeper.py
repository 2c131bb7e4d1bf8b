"""Forgetting the kept logs of Jobs that are gone. Where nothing is kept, no Jobs are watched."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hekla.api.kinds import JOB
from hekla.api.meta import uid_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.errors import ApiError, Disconnected
from hekla.log import get_logger
from hekla.node.kept_logs import bound_all, forget, jobs_with_logs, kept_for
from hekla.node.patience import Patience

log = get_logger("node")


class LogKeeper:
    """`is_ours` says of a node's name whether its pods were this cluster's: what others kept is theirs to forget."""

    def __init__(self, client: Client, data_dir: Path, is_ours: Callable[[str], bool], rng: random.Random) -> None:
        self._client = client
        self._data_dir = data_dir
        self._is_ours = is_ours
        self._jobs = Informer(client, JOB, rng=rng, only_told=True)
        self._patience = Patience()

    def look(self) -> None:
        """Something may have been kept."""
        self._patience.wake()

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.to_thread(bound_all, self._data_dir)
        while not (kept := await self._kept()):
            await self._patience.wait(failed=kept is None)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            await self._jobs.synced()
            self._jobs.subscribe(self._hear)
            while True:
                settled = await self._forget_the_gone()
                await self._patience.wait(failed=not settled)

    def _hear(self, update: Update) -> None:
        if update.new is None:
            self._patience.wake()

    async def _kept(self) -> list[str] | None:
        """None when it cannot be looked at, which must not end the node."""
        try:
            return await asyncio.to_thread(jobs_with_logs, self._data_dir)
        except OSError as error:
            log.warning("kept logs not looked at", error=error)
            return None

    async def _forget_the_gone(self) -> bool:
        """False when something went wrong: nobody will tell us of those Jobs again."""
        kept = await self._kept()
        present = {uid_of(job) for job in self._jobs.all()}
        settled = [await self._settle(job) for job in kept or () if job not in present]
        return kept is not None and all(settled)

    async def _settle(self, uid: str) -> bool:
        """Forget the Job if it is gone. False when that could not be found out, or did not work."""
        try:
            owner = await asyncio.to_thread(kept_for, self._data_dir, uid)
            return not await self._may_go(uid, owner) or await asyncio.to_thread(forget, self._data_dir, uid)
        except (ApiError, Disconnected, OSError) as error:
            log.warning("not known whether a job is gone whose logs are kept", uid=uid, error=error)
            return False

    async def _may_go(self, uid: str, owner: Mapping[str, Any]) -> bool:
        if "node" in owner and not self._is_ours(owner["node"]):
            return False
        name = (owner.get("job") or {}).get("name")
        if not name:
            return True
        # Asked of the server itself: a Job whose first pod has just ended may not have been heard of yet.
        found = await self._client.find(JOB, name, owner["namespace"])
        return found is None or uid_of(found) != uid
