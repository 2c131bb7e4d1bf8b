"""Deletes finished Jobs when their `ttlSecondsAfterFinished` is over."""

from __future__ import annotations

from datetime import datetime, timedelta

from hekla.api.batch import FINISHED_JOB_PHASES
from hekla.api.kinds import JOB, Obj
from hekla.api.meta import Key, is_deleting, key_of, parse_timestamp, revision_of, uid_of
from hekla.client.informer import Update
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.runner import Runner
from hekla.controllers.sources import Sources
from hekla.errors import NotFound
from hekla.log import get_logger

log = get_logger("garbage")


class GarbageController:
    def __init__(self, client: Client, sources: Sources, *, clock: Clock) -> None:
        self._client = client
        self._jobs = sources.jobs
        self._clock = clock
        self.runner = Runner("garbage", self.reconcile, workers=1)
        sources.jobs.subscribe(self._changed)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key.name, key.namespace)
        expires = expiry(job) if job is not None else None
        if job is None or expires is None:
            return None
        remaining = (expires - self._clock.now()).total_seconds()
        if remaining > 0:
            return remaining
        try:
            await self._client.delete(
                JOB,
                key.name,
                key.namespace,
                uid=uid_of(job),
                # Deleted only as it was judged: a change in between brings the key back.
                resource_version=str(revision_of(job)),
                propagation="Foreground",
            )
        except NotFound:
            return None
        self.runner.deleted(key, self._jobs, key, uid_of(job))
        log.info("deleted finished job", job=key)
        return None

    def _changed(self, update: Update) -> None:
        if update.new is not None and expiry(update.new) is not None:
            self.runner.enqueue(key_of(update.new))


def expiry(job: Obj) -> datetime | None:
    """When the Job is to be deleted; None for one that is not finished, has no limit or is going already."""
    ttl = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if ttl is None:
        return None
    state = (job.get("status") or {}).get("state") or {}
    ended = state.get("lastTransitionTime")
    if ended is None or is_deleting(job) or state.get("phase") not in FINISHED_JOB_PHASES:
        return None
    return parse_timestamp(ended) + timedelta(seconds=int(ttl))
