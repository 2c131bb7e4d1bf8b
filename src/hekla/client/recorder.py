"""Kubernetes Events: what a person reads under `kubectl describe`.

Recording never waits and never fails the caller, and what waits is written together. The same event again within ten
minutes raises the count of the first instead of making a second object; when the server is slow, the oldest waiting
events are dropped first.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

from hekla.api.kinds import EVENT, Obj
from hekla.api.meta import timestamp
from hekla.client.many import in_turns
from hekla.client.rest import Client, PatchStyle
from hekla.clock import Clock
from hekla.errors import ApiError, Disconnected, NotFound
from hekla.log import get_logger

log = get_logger("events")

NORMAL = "Normal"
WARNING = "Warning"

_WAITING = 10_000
_AT_ONCE = 200
# Few: what events tell of must not wait for them.
_IN_FLIGHT = 4
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
        self._waiting: deque[tuple[_Fingerprint, Obj]] = deque(maxlen=_WAITING)
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
        meta = regarding["metadata"]
        message = message if len(message) <= _MESSAGE_LENGTH else message[: _MESSAGE_LENGTH - 1] + "…"
        reference = _reference(regarding)
        now = timestamp(self._clock.now())
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
        cause = _reference(related) if related is not None else {}
        if cause:
            event["related"] = cause
        fingerprint = (*_identity(reference), type_, reason, message, *_identity(cause))
        self._waiting.append((fingerprint, event))
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            await self._try_to_write()

    async def flush(self, seconds: float = 1.0) -> None:
        """Give what is waiting a last chance before the process ends."""
        try:
            async with asyncio.timeout(seconds):
                while self._waiting:
                    await self._try_to_write()
        except TimeoutError:
            log.debug("events not written", waiting=len(self._waiting))

    def _number(self) -> int:
        """Larger than every number before: lists go by name, and times have whole seconds.

        Of what several say in the same microsecond, chance decides.
        """
        self._moment = max(self._moment + 1, int(self._clock.now().timestamp() * 1_000_000))
        return self._moment << 16 | self._rng.getrandbits(16)

    async def _try_to_write(self) -> None:
        waiting = [self._waiting.popleft() for _ in range(min(len(self._waiting), _AT_ONCE))]
        try:
            await self._write(waiting)
        except (ApiError, Disconnected) as error:
            log.debug("events not written", events=len(waiting), error=error)

    async def _write(self, waiting: list[tuple[_Fingerprint, Obj]]) -> None:
        # 1. What happened several times is one event with a count.
        gathered: dict[_Fingerprint, Obj] = {}
        for fingerprint, event in waiting:
            known = gathered.setdefault(fingerprint, event)
            if known is not event:
                known["count"] += 1
                known["lastTimestamp"] = event["lastTimestamp"]
        # 2. What was written a while ago is counted there; what is not there any more is made anew.
        again = [fingerprint for fingerprint in gathered if self._is_recent(fingerprint)]
        counted = await in_turns(
            again, lambda fingerprint: self._repeat(fingerprint, gathered[fingerprint]), _IN_FLIGHT
        )
        done = {fingerprint for fingerprint, result in zip(again, counted, strict=True) if result is True}
        # 3. The rest is new.
        unwritten = {fingerprint: event for fingerprint, event in gathered.items() if fingerprint not in done}
        for new in _in_order(unwritten):
            results = await self._client.create_many(EVENT, list(new.values()), in_flight=_IN_FLIGHT)
            for (fingerprint, event), result in zip(new.items(), results, strict=True):
                if isinstance(result, ApiError):
                    log.debug("event not written", reason=event["reason"], error=result)
                else:
                    self._remember(fingerprint, event["metadata"]["name"], event["count"])

    def _is_recent(self, fingerprint: _Fingerprint) -> bool:
        known = self._recorded.get(fingerprint)
        return known is not None and self._clock.monotonic() - known.at < _SAME_EVENT_SECONDS

    async def _repeat(self, fingerprint: _Fingerprint, event: Obj) -> bool:
        known = self._recorded[fingerprint]
        patch = {"count": known.count + event["count"], "lastTimestamp": event["lastTimestamp"]}
        try:
            await self._client.patch(EVENT, known.name, patch, event["metadata"]["namespace"], style=PatchStyle.MERGE)
        except NotFound:
            return False
        known.count += event["count"]
        known.at = self._clock.monotonic()
        return True

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
