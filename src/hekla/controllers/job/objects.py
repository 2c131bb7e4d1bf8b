"""Keeps the objects a job's plugins ask for: creates, follows and removes them, and never touches another's.

Ownership is checked by uid before anything is changed or deleted: an object of the same name that is not this job's
is an error on the Job, not a victim.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.meta import is_deleting, is_owned_by, name_of, namespace_of, uid_of
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.job.kubelets import Kubelets
from hekla.controllers.job.model import Job, Pod
from hekla.controllers.job.plugin import Wanted, refusing
from hekla.errors import AlreadyExists, HeklaError, NotFound

# How long what was made is believed to be still there.
_BELIEVED_SECONDS = 10.0


class NotOurs(HeklaError):
    """An object of the name we need belongs to somebody else."""


class ObjectKeeper:
    def __init__(self, client: Client, kubelets: Kubelets, clock: Clock) -> None:
        self._client = client
        self._kubelets = kubelets
        self._clock = clock
        self._made: dict[str, dict[tuple[str, str], bytes]] = {}
        self._asked: dict[str, float] = {}

    def believed_for(self, job: Job) -> float:
        """The seconds that its objects need not be asked for; infinite for a job for which none were made."""
        return self._asked.get(job.uid, math.inf) + _BELIEVED_SECONDS - self._clock.monotonic()

    def misses(self, uid: str, kind: Kind, name: str) -> bool:
        """Whether what is gone was made for the Job with this uid and not cleared since: it is asked for then."""
        wanted = (kind.resource, name) in self._made.get(uid, ())
        if wanted:
            self._asked[uid] = -math.inf
        return wanted

    async def ensure(self, job: Job, wanted: Iterable[Wanted], pods: Sequence[Pod], *, verify: bool) -> None:
        """Have the objects there and current, as far as the job's `pods` can bear it.

        Without `verify`, what was made once is believed to be still there.
        """
        for position, want in enumerate(wanted):
            made = self._made.setdefault(job.uid, {})
            # At the first only: one that is lost while others are looked for is to be asked for again.
            if position == 0 and (verify or not made):
                self._asked[job.uid] = self._clock.monotonic()
            key, print_ = (want.kind.resource, name_of(want.obj)), msgspec.json.encode(want.obj)
            if verify or made.get(key) != print_:
                await self._ensure(job, want, pods, known=key in made)
                made[key] = print_

    async def remove(self, job: Job, wanted: Iterable[Wanted]) -> None:
        self.forget(job.uid)
        for want in wanted:
            name, namespace = name_of(want.obj), namespace_of(want.obj)
            existing = await self._client.find(want.kind, name, namespace)
            if existing is None or is_deleting(existing) or not is_owned_by(existing, job.obj):
                continue
            try:
                await self._client.delete(want.kind, name, namespace, uid=uid_of(existing))
            except NotFound:
                continue

    def forget(self, uid: str) -> None:
        self._made.pop(uid, None)
        self._asked.pop(uid, None)

    async def _ensure(self, job: Job, want: Wanted, pods: Sequence[Pod], *, known: bool) -> None:
        # A key pair costs more than the question whether there is one.
        existing = await self._find(want) if known or want.once is not None else None
        if existing is None:
            try:
                await self._client.create(want.kind, await _complete(want))
                return
            except AlreadyExists:
                existing = await self._find(want)
                if existing is None:
                    raise
        if not is_owned_by(existing, job.obj) or is_deleting(existing):
            going = " and is being deleted" if is_deleting(existing) else " and does not belong to this job"
            raise NotOurs(f'{want.kind.singular} "{name_of(want.obj)}" exists{going}')
        current = {field: {**(existing.get(field) or {}), **want.obj[field]} for field in want.followed}
        if all(existing.get(field) == value for field, value in current.items()):
            return
        if not (want.mounted_in_part and await self._kubelets.run_any(job, pods)):
            await self._client.update(want.kind, {**existing, **current})

    async def _find(self, want: Wanted) -> Obj | None:
        return await self._client.find(want.kind, name_of(want.obj), namespace_of(want.obj))


async def _complete(want: Wanted) -> Obj:
    """The object as it is created, with what is made only then."""
    # A key pair takes tens of milliseconds, in which a thousand other jobs would wait.
    return want.obj if want.once is None else await asyncio.to_thread(_with_what_is_made_once, want, want.once)


def _with_what_is_made_once(want: Wanted, once: Callable[[], Obj]) -> Obj:
    with refusing(f'{want.kind.singular} "{name_of(want.obj)}" could not be made'):
        obj = {**want.obj, **{field: {**value, **want.obj.get(field, {})} for field, value in once().items()}}
        msgspec.json.encode(obj)
        return obj
