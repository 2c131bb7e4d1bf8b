"""Kubernetes Events: what a person reads under `kubectl describe`.

Recording never waits and never fails the caller, and what waits is written together. The same event again within ten
minutes raises the count of the first instead of making a second object. While the server is away or slow they wait, and
where they become too many, the oldest are dropped first.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, OrderedDict
from dataclasses import dataclass

from hekla.api.kinds import EVENT, Obj
from hekla.api.meta import timestamp
from hekla.client.many import in_turns
from hekla.client.rest import Client, PatchStyle
from hekla.clock import Clock
from hekla.errors import AlreadyExists, ApiError, Disconnected, NotFound, ServiceUnavailable, Timeout, TooManyRequests
from hekla.log import get_logger

log = get_logger("events")

NORMAL = "Normal"
WARNING = "Warning"

_WAITING = 10_000
_AT_ONCE = 200
# Few: what events tell of must not wait for them.
_IN_FLIGHT = 4
_FIRST_RETRY = 1.0
_LONGEST_RETRY = 10.0
# With these nothing is said about the event itself.
_AWAY = (Disconnected, ServiceUnavailable, Timeout, TooManyRequests)
_REMEMBERED = 4096
_SAME_EVENT_SECONDS = 600.0
_MESSAGE_LENGTH = 1024


@dataclass(slots=True)
class _Recorded:
    name: str
    count: int
    at: float


# Kind and uid of what it is about, type, reason, message, and of what had to do with it kind and uid.
_Fingerprint = tuple[str, str, str, str, str, str, str]


class Recorder:
    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock,
        rng: random.Random,
        host: str = "",
        only_warnings: bool = False,
    ) -> None:
        """With `only_warnings`, what goes as it should is not written: each Event is a write."""
        self._client = client
        self._only_warnings = only_warnings
        self._component = component
        self._clock = clock
        self._rng = rng
        self._host = host
        self._waiting: OrderedDict[_Fingerprint, Obj] = OrderedDict()
        self._dropped = 0
        self._wake = asyncio.Event()
        self._recorded: OrderedDict[_Fingerprint, _Recorded] = OrderedDict()
        self._moment = 0

    def event(
        self, regarding: Obj, type_: str, reason: str, message: str, *, action: str = "", related: Obj | None = None
    ) -> None:
        """Say `message` about an object (which needs apiVersion, kind and metadata).

        For programs, `action` is what was done, and `related` another object that had to do with it.
        """
        if self._only_warnings and type_ != WARNING:
            return
        message = message if len(message) <= _MESSAGE_LENGTH else message[: _MESSAGE_LENGTH - 1] + "…"
        reference, cause = _reference(regarding), _reference(related) if related is not None else {}
        fingerprint = (*_identity(reference), type_, reason, message, *_identity(cause))
        now = timestamp(self._clock.now())
        known = self._waiting.get(fingerprint)
        if known is not None:
            known["count"] += 1
            known["lastTimestamp"] = now
            return
        meta = regarding["metadata"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name'][:230]}.{self._number():017x}",
                "namespace": meta.get("namespace") or "default",
            },
            "involvedObject": reference,
            "reason": reason,
            "message": message,
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": type_,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        if action:
            event["action"] = action
        if cause:
            event["related"] = cause
        self._waiting[fingerprint] = event
        self._drop_oldest()
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled. While the server is away they wait."""
        delay = _FIRST_RETRY
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            if await self._try_to_write():
                delay = _FIRST_RETRY
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY)

    async def flush(self, seconds: float = 1.0) -> None:
        """Give what is waiting a last chance before the process ends: a server that is away is not waited for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._waiting and await self._try_to_write():
                    pass
        if self._waiting:
            log.debug("events not written", waiting=len(self._waiting))

    def _number(self) -> int:
        """Larger than every number before: lists go by name, and times have whole seconds.

        Of what several say in the same microsecond, chance decides.
        """
        self._moment = max(self._moment + 1, int(self._clock.now().timestamp() * 1_000_000))
        return self._moment << 16 | self._rng.getrandbits(16)

    async def _try_to_write(self) -> bool:
        """Whether the server was there to take what waits, or to refuse it."""
        waiting = OrderedDict(self._waiting.popitem(last=False) for _ in range(min(len(self._waiting), _AT_ONCE)))
        try:
            await self._write(waiting)
        except (*_AWAY, ApiError) as error:
            log.debug("events not written", events=len(waiting), error=error)
            if not isinstance(error, _AWAY):
                waiting.clear()
        finally:
            # Who is cancelled meanwhile may still have a last chance.
            self._put_back(waiting)
        if not waiting and self._dropped:
            log.warning("events dropped while the server was away", events=self._dropped)
            self._dropped = 0
        return not waiting

    def _put_back(self, unwritten: OrderedDict[_Fingerprint, Obj]) -> None:
        for fingerprint, event in reversed(unwritten.items()):
            repeated = self._waiting.get(fingerprint)
            if repeated is not None:
                event["count"] += repeated["count"]
                event["lastTimestamp"] = repeated["lastTimestamp"]
            self._waiting[fingerprint] = event
            self._waiting.move_to_end(fingerprint, last=False)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._waiting) > _WAITING:
            self._waiting.popitem(last=False)
            self._dropped += 1

    async def _write(self, waiting: OrderedDict[_Fingerprint, Obj]) -> None:
        """What is done is taken out of `waiting`; the rest may be tried again, in the order in which it was said."""
        # 1. What was written a while ago is counted there; what is not there any more is made anew.
        again = [fingerprint for fingerprint in waiting if self._is_recent(fingerprint)]
        counted = await in_turns(again, lambda fingerprint: self._repeat(fingerprint, waiting), _IN_FLIGHT)
        later = {each for each, result in zip(again, counted, strict=True) if isinstance(result, _AWAY)}
        # 2. The rest is new.
        for new in _in_order(
            {fingerprint: event for fingerprint, event in waiting.items() if fingerprint not in later}
        ):
            results = await self._client.create_many(EVENT, list(new.values()), in_flight=_IN_FLIGHT)
            for (fingerprint, event), result in zip(new.items(), results, strict=True):
                if isinstance(result, AlreadyExists):
                    # By us: the answer was lost, and it may have been said again since.
                    self._remember(fingerprint, event["metadata"]["name"], 0)
                    (repeated,) = await in_turns([fingerprint], lambda each: self._repeat(each, waiting), 1)
                    if isinstance(repeated, _AWAY):
                        continue
                elif not isinstance(result, ApiError):
                    self._remember(fingerprint, event["metadata"]["name"], event["count"])
                elif isinstance(result, _AWAY):
                    continue
                else:
                    log.debug("event not written", reason=event["reason"], error=result)
                waiting.pop(fingerprint, None)
            if any(isinstance(result, _AWAY) for result in results):
                return

    def _is_recent(self, fingerprint: _Fingerprint) -> bool:
        known = self._recorded.get(fingerprint)
        return known is not None and self._clock.monotonic() - known.at < _SAME_EVENT_SECONDS

    async def _repeat(self, fingerprint: _Fingerprint, waiting: OrderedDict[_Fingerprint, Obj]) -> None:
        known, event = self._recorded[fingerprint], waiting[fingerprint]
        patch = {"count": known.count + event["count"], "lastTimestamp": event["lastTimestamp"]}
        try:
            await self._client.patch(EVENT, known.name, patch, event["metadata"]["namespace"], style=PatchStyle.MERGE)
        except NotFound:
            return
        known.count += event["count"]
        known.at = self._clock.monotonic()
        del waiting[fingerprint]

    def _remember(self, fingerprint: _Fingerprint, name: str, count: int) -> None:
        self._recorded[fingerprint] = _Recorded(name, count, self._clock.monotonic())
        if len(self._recorded) > _REMEMBERED:
            self._recorded.popitem(last=False)


def _in_order(events: dict[_Fingerprint, Obj]) -> list[dict[_Fingerprint, Obj]]:
    """What may be written at the same time: of each object first its first event, then its second, and so on.

    Times have whole seconds, so a story can only be told in the order in which its events were made.
    """
    rounds: list[dict[_Fingerprint, Obj]] = []
    earlier = Counter[tuple[str, str]]()
    for fingerprint, event in events.items():
        regarding = fingerprint[:2]
        if earlier[regarding] == len(rounds):
            rounds.append({})
        rounds[earlier[regarding]][fingerprint] = event
        earlier[regarding] += 1
    return rounds


def _reference(obj: Obj) -> Obj:
    meta = obj["metadata"]
    reference = {
        "apiVersion": obj.get("apiVersion", "v1"),
        "kind": obj.get("kind", ""),
        "name": meta["name"],
        "namespace": meta.get("namespace", ""),
        "uid": meta.get("uid", ""),
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    return {key: value for key, value in reference.items() if value}


def _identity(reference: Obj) -> tuple[str, str]:
    return str(reference.get("kind", "")), str(reference.get("uid") or reference.get("name", ""))
