"""Connections in bad weather: requests refused, lost before or after their effect, late; watches closed, cut, delayed,
repeated, expired; the component itself killed in the middle of a write, or stopped for a while with its requests on
their way; webhooks down or slow; clocks wrong.

What goes wrong, and when, comes from the seed. `Trouble.end` ends it; from then on everything has to come right.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.review import Admission
from hekla.client.transport import Answer, Request, StreamedAnswer, Transport
from hekla.clock import LoopClock
from hekla.errors import (
    ApiError,
    Conflict,
    Disconnected,
    Expired,
    InternalError,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
)
from tests.integration.fencing import unfenced
from tests.integration.hunting import Hunt, hunts
from tests.integration.stage import actor
from tests.transports import Relay, Severable, decides, refusal


@dataclass(frozen=True, slots=True)
class Weather:
    """`faults` is the share of requests, and of pieces of watches, that go wrong; `kills` that of writes.

    `lag` is by how many seconds at most everything is heard later, though nothing goes wrong.
    """

    name: str
    faults: float
    kills: float
    lag: float = 0.0


WEATHERS = (
    Weather("calm", 0.0, 0.0),
    Weather("slow", 0.0, 0.0, lag=2.0),
    Weather("normal", 0.01, 0.002),
    Weather("rough", 0.1, 0.01),
    Weather("hell", 0.4, 0.02),
)
_ODDS = (1, 2, 3, 4, 3)
_LATENCY_SECONDS = 0.004
_TIMEOUT_SECONDS = 20.0
_WEBHOOK_SECONDS = 5.0
# Whose watches are worse than all others'.
_DEAF = ("", "", "builtins", "controllers", "scheduler")
_DEAF_FAULTS = 0.3
_REFUSALS: tuple[type[ApiError], ...] = (Conflict, TooManyRequests, InternalError, ServiceUnavailable, Timeout)
_UNREADABLE: tuple[type[ApiError], ...] = (TooManyRequests, InternalError, ServiceUnavailable)


class Trouble:
    """What is in store for a world: drawn from its seed, and told in `stories`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"trouble {seed}")
        (self.weather,) = self.rng.choices(WEATHERS, _ODDS)
        self.batches = self.rng.random() < 0.6
        self.longest_delay = self.rng.choice((0.2, 2.0, 20.0, 600.0))
        self.kills_left = self.rng.randint(0, 6)
        self.hunts: list[Hunt] = hunts(self.rng) if self.weather.faults else []
        self.leases = self.rng.random() < 0.5  # controllers and scheduler act only while they hold a Lease
        self.silent_until: dict[str, float] = {}  # component -> when it hears again
        self.stopped: dict[str, asyncio.Event] = {}  # component -> when it goes on
        self.deaf = self.rng.choice(_DEAF)
        self.webhook = "up"
        self.raging = False
        self.hunting = False
        self.over: asyncio.Event
        self.stories: list[str] = []
        self.unfenced: list[str] = []

    def begin(self) -> None:
        self.over = asyncio.Event()
        self.raging = self.hunting = True

    def end(self) -> None:
        self.raging = False
        self.over.set()

    def strikes(self, watcher: str = "") -> bool:
        worst = _DEAF_FAULTS if watcher and watcher == self.deaf and self.weather.faults else 0.0
        return self.raging and self.rng.random() < max(self.weather.faults, worst)

    def kills(self) -> bool:
        """Whether the one who makes a request dies of it."""
        if not self.raging or self.kills_left <= 0 or self.rng.random() >= self.weather.kills:
            return False
        self.kills_left -= 1
        return True

    def hunted(self, name: str, request: Request) -> str:
        """What befalls a request that was sought out; empty for one that was not."""
        for hunt in [hunt for hunt in self.hunts if self.hunting and hunt.strikes(name, request)]:
            self.hunts.remove(hunt)
            self.silent_until[name] = asyncio.get_running_loop().time() + hunt.silence
            self.tell(f"{name} {request.place}: {hunt.fate}, silent for {hunt.silence:.1f} s")
            return hunt.fate
        return ""

    async def hear(self, name: str) -> None:
        """Wait until news reach a component."""
        if name in self.stopped:
            await self.stopped[name].wait()
        silence = self.silent_until.get(name, 0.0) - asyncio.get_running_loop().time()
        if silence > 0:
            await asyncio.sleep(silence)
        if self.raging and self.weather.lag:
            await self.hold(self.rng.uniform(0, self.weather.lag))

    def tell(self, story: str) -> None:
        self.stories.append(f"{asyncio.get_running_loop().time():.3f} {story}")

    async def hold(self, seconds: float) -> None:
        """Keep something waiting, at most until the trouble is over."""
        try:
            async with asyncio.timeout(seconds):
                await self.over.wait()
        except TimeoutError:
            return


class FaultyConnection(Severable):
    def __init__(self, inner: Transport, name: str, trouble: Trouble, die: Callable[[str], None]) -> None:
        super().__init__(inner, batches=trouble.batches)
        self._name = name
        self._trouble = trouble
        self._die = die

    async def send(self, request: Request) -> Answer:
        trouble = self._trouble
        self.check()
        if self.hides(request):
            return await Relay.send(self, request)
        if trouble.raging:
            await asyncio.sleep(trouble.rng.random() * _LATENCY_SECONDS)
            self.check()
        fault = trouble.hunted(self._name, request) or self._fault(request)
        mortal = decides(request) and trouble.kills()
        fatal = trouble.rng.choice(("before", "after")) if mortal else ""
        if fault.startswith("killed"):
            fatal = fault.removeprefix("killed ")
        if fatal == "before":
            self._be_killed(f"before {request}")
        if fault in ("lost before", "timeout before"):
            raise await self._lost(fault)
        if fault == "refused":
            return self._refusal(request.method)
        answer = await self._arriving(request)
        self._judge(request, answer)
        if fatal == "after":
            self._be_killed(f"after {request}")
        self.check()
        if fault:
            raise await self._lost(fault)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedAnswer]:
        if self._trouble.strikes():
            self.check()
            raise Disconnected("rehearsed: no watch")
        async with super().stream(request) as answer:
            yield answer

    async def passed_on(self, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A watch, as it comes through: late, twice, in part, or not any more."""
        trouble = self._trouble
        async for chunk in chunks:
            await trouble.hear(self._name)
            fault = trouble.rng.choice(_WATCH_FAULTS) if trouble.strikes(self._name) else ""
            if fault:
                trouble.tell(f"{self._name} watch {path.partition('?')[0]}: {fault}")
            match fault:
                case "closed":
                    return
                case "cut":
                    yield chunk[: trouble.rng.randrange(len(chunk))]
                    raise Disconnected("rehearsed: watch cut")
                case "expired":
                    yield _encode({"type": "ERROR", "object": Expired("rehearsed").to_status()}) + b"\n"
                    return
                case "delayed":
                    await trouble.hold(trouble.rng.random() * trouble.longest_delay)
                case "repeated":
                    yield chunk
            self.check()
            yield chunk

    def _fault(self, request: Request) -> str:
        if not self._trouble.strikes():
            return ""
        fault = self._trouble.rng.choice(_FAULTS)
        self._trouble.tell(f"{self._name} {request.place}: {fault}")
        return fault

    async def _lost(self, fault: str) -> Disconnected:
        if fault.startswith("timeout"):
            await self._trouble.hold(_TIMEOUT_SECONDS)
        return Disconnected(f"rehearsed: {fault}")

    def _refusal(self, method: str) -> Answer:
        error = self._trouble.rng.choice(_UNREADABLE if method in ("GET", "POST") else _REFUSALS)
        details = {"retryAfterSeconds": 1} if error is TooManyRequests else {}
        return refusal(error("rehearsed", details=details))

    def _be_killed(self, when: str) -> None:
        self._trouble.tell(f"{self._name} killed {when}")
        self.cut.set()
        self._die(self._name)
        self.check()

    async def _arriving(self, request: Request) -> Answer:
        """Of one who was stopped, what is on its way arrives when it goes on, though it has given up by then."""
        if self._name not in self._trouble.stopped:
            return await Relay.send(self, request)
        under_way = asyncio.create_task(self._arriving_late(request))
        under_way.add_done_callback(_look_at)
        return await asyncio.shield(under_way)

    async def _arriving_late(self, request: Request) -> Answer:
        await self._trouble.stopped[self._name].wait()
        self.check()
        return await Relay.send(self, request)

    def _judge(self, request: Request, answer: Answer) -> None:
        if answer.status < 300 and (why := unfenced(request.method, request.path, request.body)):
            self._trouble.unfenced.append(f"I15: {self._name}: {why}")
        if answer.status == HTTPStatus.CONFLICT and not self._trouble.weather.faults and _is_verdict(request):
            self._trouble.unfenced.append(f"I13: {self._name} did not wait for its own writes: {request}")


class TroubledWebhook:
    """Admission as a server of its own: while the trouble says so it is down, or answers late or never.

    Users are spared: one who is refused tries again, which is as if they had come later.
    """

    def __init__(self, inner: Admission, trouble: Trouble) -> None:
        self._inner = inner
        self._trouble = trouble

    def interested(self, kind: Kind, operation: str) -> bool:
        return self._inner.interested(kind, operation)

    def fills_in(self, kind: Kind, operation: str) -> bool:
        return self._inner.fills_in(kind, operation)

    async def mutate(self, review: Obj) -> Obj:
        await self._reach()
        return await self._inner.mutate(review)

    async def validate(self, review: Obj) -> Obj:
        await self._reach()
        return await self._inner.validate(review)

    async def _reach(self) -> None:
        trouble = self._trouble
        if not trouble.raging or not actor.get() or trouble.webhook == "up":
            return
        if trouble.webhook == "slow":
            await trouble.hold(trouble.rng.random() * 2 * _WEBHOOK_SECONDS)
            if trouble.rng.random() < 0.5:
                return
        raise InternalError("Internal error occurred: failed calling webhook: rehearsed")


class WrongClock(LoopClock):
    """A wall clock that may be set wrong while it runs; what it measures stays right."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()
        self.was_wrong = False

    def set(self, ahead: timedelta) -> None:
        self.ahead = ahead
        self.was_wrong = True

    def now(self) -> datetime:
        return super().now() + self.ahead


def _is_verdict(request: Request) -> bool:
    """Whether it writes the status of a Job that nobody else writes or deletes."""
    if request.method != "PUT" or not request.path.endswith("/status"):
        return False
    return not any(f"/jobs/{name}/" in request.path for name in _SHARED)


def _look_at(task: asyncio.Task[Answer]) -> None:
    """What became of it concerns nobody any more."""
    if not task.cancelled():
        task.exception()


_SHARED = ("brief", "deleted", "phoenix", "scaled")
_FAULTS = (
    "lost before",
    "lost before",
    "lost after",
    "lost after",
    "timeout before",
    "timeout after",
    "refused",
    "refused",
)
_WATCH_FAULTS = ("closed", "cut", "expired", "delayed", "delayed", "delayed", "repeated")
_encode = msgspec.json.Encoder().encode
