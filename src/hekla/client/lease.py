"""Which of several may act: a Lease that one holds, renews in time and gives back at its end.

The holder stops before anybody else may start, and nobody's clock is compared with another's. The holder goes on for
`renew_deadline` from the moment its last successful renewal *began*; the others start `duration`, which is longer,
after they *saw* that renewal, which is later. From then on its own writes are not even sent (`Fence`).

What was sent before and arrives late is not stopped by a Lease: every write says by uid or resourceVersion what it was
decided on, and the server refuses it when that has changed.

Work may hold up the event loop for longer than a Lease lasts. Where there is a connection for it, renewing has a thread
and an event loop of its own; it ends when the loop of who works has not moved for far too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

import msgspec

from hekla.api.kinds import LEASE, Obj
from hekla.api.meta import micro_timestamp
from hekla.client.apart import run_apart
from hekla.client.rest import Client
from hekla.client.transport import Answer, Request, StreamedAnswer, Transport
from hekla.clock import Clock
from hekla.errors import ApiError, Disconnected, HeklaError, NotFound, UsageError
from hekla.log import get_logger

log = get_logger("lease")

_NEVER = -math.inf
_JITTER = 1.2  # those who wait come at different moments: each pause is up to so much of itself longer


class LeaseLost(HeklaError):
    """Somebody else may act from now on, or soon."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, and in seconds: how long others keep away, how long its holder goes on, how often each looks."""

    name: str
    namespace: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    standstill: float = 60.0  # after which one whose work holds up its event loop no longer renews

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            raise UsageError(
                f"a lease must last longer ({self.duration:g}s) than its holder tries to renew it "
                f"({self.renew_deadline:g}s), and that longer than {_JITTER} retry periods ({self.retry_period:g}s)"
            )


def new_identity(host: str, rng: random.Random) -> str:
    """Who we are in a Lease: where we run, and which process of all that ever ran there."""
    return f"{host}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


class Election:
    """One candidate for one Lease. `standing_by` is told when somebody else was found to hold it.

    `connect` makes the connection over which the Lease is renewed by a thread of its own; without it that is done over
    `client`, as far as work leaves time for it.
    """

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        *,
        identity: str,
        clock: Clock,
        rng: random.Random,
        standing_by: Callable[[], None] = lambda: None,
        connect: Callable[[], Client] | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._standing_by = standing_by
        self._connect = connect
        self._moved = _NEVER  # when the loop of who works was last seen to move
        self._leads_until = _NEVER
        self._spec: Obj | None = None  # what the Lease said last
        self._seen = _NEVER  # when it first said so
        self._trouble = ""

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def leads(self) -> bool:
        """Whether nobody else can be acting, at this moment."""
        return self._clock.monotonic() < self._leads_until

    def fenced(self, client: Client) -> Client:
        """`client`, for one who may write only while we lead."""
        return client.through(Fence(client.transport, self))

    @contextlib.asynccontextmanager
    async def won(self) -> AsyncIterator[None]:
        """Waits until the Lease is ours; the block is cancelled, and LeaseLost raised, as soon as it may not be."""
        await self._win()
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep() if self._connect is None else self._keep_apart(self._connect))
                await asyncio.sleep(0)  # it begins before any work does
                yield
                keeping.cancel()
        finally:
            await self._give_back()

    async def _win(self) -> None:
        known = ""
        while not await self._take():
            if self._holder != known:
                known = self._holder
                log.info("standing by", lease=self.name, holder=known)
                self._standing_by()
            await asyncio.sleep(self._settings.retry_period * (1 + _JITTER * self._rng.random()))
        log.info("leading", lease=self.name, identity=self._identity)

    async def _keep_apart(self, connect: Callable[[], Client]) -> None:
        before = self._client
        self._move()
        try:
            await run_apart(partial(self._keep_over, connect, asyncio.get_running_loop()), f"lease {self.name}")
        finally:
            self._client = before

    async def _keep_over(self, connect: Callable[[], Client], working: asyncio.AbstractEventLoop) -> None:
        async with connect() as self._client:
            await self._keep(working)

    def _move(self) -> None:
        self._moved = self._clock.monotonic()

    async def _keep(self, working: asyncio.AbstractEventLoop | None = None) -> None:
        """Renew for ever; where the loop of who works is another one, while that moves."""
        try:
            while True:
                async with asyncio.timeout(self._leads_until - self._clock.monotonic()):
                    await self._renew()
                if working is not None:
                    if self._clock.monotonic() >= self._moved + self._settings.standstill:
                        raise self._lost(f"its work has not moved for {self._settings.standstill:g}s")
                    working.call_soon_threadsafe(self._move)
        except TimeoutError:
            raise self._lost("not renewed in time") from None

    async def _renew(self) -> None:
        renewed = False
        while not renewed:
            await asyncio.sleep(self._settings.retry_period)
            renewed = await self._take(renewing=True)

    async def _take(self, *, renewing: bool = False) -> bool:
        """Take the Lease, or keep it; False when somebody else holds it, or nobody can say."""
        began = self._clock.monotonic()
        try:
            # A connection that has gone silent leaves time for another.
            async with asyncio.timeout(self._settings.renew_deadline / 2):
                ours = await self._write_ours()
        except NotFound:
            missing = f"there is no namespace {self._settings.namespace}"
            self._tell(f"{missing}: `hekla install` makes it, --leader-elect=false does without")
            return False
        except (ApiError, Disconnected, TimeoutError) as error:
            self._tell(str(error) or "no answer in time")
            return False
        self._trouble = ""
        if renewing and not (ours and self.leads):
            # Also where it is free again: whoever had it meanwhile may have acted.
            raise self._lost(f"held by {self._holder}")
        if ours:
            self._leads_until = began + self._settings.renew_deadline
        return ours

    async def _write_ours(self) -> bool:
        found = await self._client.find(LEASE, self.name, self._settings.namespace)
        if found is None:
            self._note(await self._client.create(LEASE, self._claimed(self._empty())))
            return True
        self._note(found)
        if not self._is_free():
            return False
        # With the resourceVersion of what was read: of two who find it free, one gets it.
        self._note(await self._client.update(LEASE, self._claimed(found)))
        return True

    def _note(self, lease: Obj) -> None:
        spec = lease.get("spec") or {}
        if spec != self._spec:
            self._spec, self._seen = spec, self._clock.monotonic()

    @property
    def _holder(self) -> str:
        return str((self._spec or {}).get("holderIdentity") or "")

    def _is_free(self) -> bool:
        promised = float((self._spec or {}).get("leaseDurationSeconds") or self._settings.duration)
        return self._holder in ("", self._identity) or self._clock.monotonic() >= self._seen + promised

    def _empty(self) -> Obj:
        metadata = {"name": self.name, "namespace": self._settings.namespace}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}

    def _claimed(self, lease: Obj) -> Obj:
        spec, now = lease.get("spec") or {}, micro_timestamp(self._clock.now())
        kept = spec.get("holderIdentity") == self._identity
        transitions = int(spec.get("leaseTransitions") or 0)
        claim = {
            "holderIdentity": self._identity,
            # Whole seconds are all it can say: rather too long than too short.
            "leaseDurationSeconds": math.ceil(self._settings.duration),
            "acquireTime": spec.get("acquireTime") if kept else now,
            "renewTime": now,
            "leaseTransitions": transitions if kept or not spec else transitions + 1,
        }
        return {**lease, "spec": {**spec, **claim}}

    async def _give_back(self) -> None:
        """Let the next one start at once. Nothing of ours is written any more."""
        if not self.leads:
            return
        self._leads_until = _NEVER
        try:
            async with asyncio.timeout(self._settings.retry_period):
                lease = await self._client.get(LEASE, self.name, self._settings.namespace)
                self._note(lease)
                if self._holder == self._identity:
                    spec = {key: value for key, value in lease["spec"].items() if key != "holderIdentity"}
                    await self._client.update(LEASE, {**lease, "spec": {**spec, "leaseDurationSeconds": 1}})
                    log.info("lease given back", lease=self.name)
        except (ApiError, Disconnected, TimeoutError) as error:
            log.info("lease not given back", lease=self.name, error=error)

    def _lost(self, why: str) -> LeaseLost:
        self._leads_until = _NEVER
        log.warning("lease lost", lease=self.name, reason=why)
        return LeaseLost(f"lease {self._settings.namespace}/{self.name} lost: {why}")

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("lease not reached", lease=self.name, error=trouble)
            self._trouble = trouble


class Fence:
    """A connection on which nothing is written but while an election is won.

    Cancelling whoever works takes a moment, and one who was stopped by the system and wakes again has not heard yet. It
    may have had many writes waiting for their turn, so each is looked at again when that comes.
    """

    def __init__(self, inner: Transport, election: Election) -> None:
        self._inner = inner
        self._election = election

    async def send(self, request: Request) -> Answer:
        if not request.writes:
            return await self._inner.send(request)
        self._permit(request)
        return await self._inner.send(msgspec.structs.replace(request, permit=partial(self._permit, request)))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    def _permit(self, request: Request) -> None:
        if not self._election.leads:
            raise Disconnected(f"{request.place}: not sent, the lease {self._election.name} is not ours")
