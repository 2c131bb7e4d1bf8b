"""Events do not live for ever: an hour after they were last written they go, as on the real server."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from hekla.api.meta import parse_timestamp
from hekla.apiserver.store.store import KEEP, Entry, Keep, Remove, Store
from hekla.clock import Clock
from hekla.log import get_logger

log = get_logger("apiserver")

EVENT_LIFETIME = timedelta(hours=1)
_LOOK_EVERY_SECONDS = 60.0
_LOOK_AT_ONCE = 100
_EVENTS = "/events"


async def expire_events(store: Store, clock: Clock) -> None:
    """Remove old events, for ever."""
    while True:
        horizon = clock.now() - EVENT_LIFETIME
        for count, entry in enumerate(store.entries(_EVENTS)):
            if count % _LOOK_AT_ONCE == 0:
                await asyncio.sleep(0)
            if _last_written(entry) < horizon:
                await store.write(entry.key, _Expire(entry))
        await asyncio.sleep(_LOOK_EVERY_SECONDS)


class _Expire:
    """A guard: gone, unless written again meanwhile."""

    def __init__(self, seen: Entry) -> None:
        self._seen = seen

    def __call__(self, current: Entry | None) -> Remove | Keep:
        return Remove(current.decode()) if current is self._seen and current is not None else KEEP


def _last_written(entry: Entry) -> datetime:
    event = entry.decode()
    created = event["metadata"]["creationTimestamp"]
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or created
    try:
        return max(parse_timestamp(last), parse_timestamp(created))
    except ValueError:
        return parse_timestamp(created)
