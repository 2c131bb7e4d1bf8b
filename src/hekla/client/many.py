"""Many requests of one sort: a bounded number in flight, or cut into portions for servers that take several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from hekla.api.kinds import Obj
from hekla.errors import ApiError, Disconnected, error_from_status

T = TypeVar("T")
R = TypeVar("R")

Portion = list[msgspec.Raw]
# Well below the three megabytes a server takes, and small enough that it has turns for others in between.
_PORTION_ITEMS = 500
_PORTION_BYTES = 2_000_000


async def in_turns(items: Sequence[T], work: Callable[[T], Awaitable[R]], most: int) -> list[R | ApiError]:
    """Work on all, `most` at a time. An error of one is its result; a lost connection is raised when all are done."""
    if not items:
        return []
    if len(items) == 1:
        # Most jobs have one pod: that needs no task of its own.
        try:
            return [await work(items[0])]
        except ApiError as error:
            return [error]
    turns = _Turns(items, work)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(most, len(items))):
            group.create_task(turns.take())
    if turns.lost is not None:
        raise turns.lost
    return [turns.results[place] for place in range(len(items))]


class _Turns(Generic[T, R]):
    def __init__(self, items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> None:
        self._waiting = iter(enumerate(items))
        self._work = work
        self.results: dict[int, R | ApiError] = {}
        self.lost: Disconnected | None = None

    async def take(self) -> None:
        for place, item in self._waiting:
            try:
                self.results[place] = await self._work(item)
            except ApiError as error:
                self.results[place] = error
            except Disconnected as error:
                self.lost = error


def portions(objs: Sequence[Obj]) -> Iterator[Portion]:
    """Objects encoded, and cut so that each portion fits into one request."""
    portion: Portion = []
    size = 0
    for obj in objs:
        encoded = msgspec.Raw(msgspec.json.encode(obj))
        length = len(bytes(encoded))
        if portion and (len(portion) == _PORTION_ITEMS or size + length > _PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(encoded)
        size += length
    if portion:
        yield portion


def error_in(result: Mapping[str, Any]) -> ApiError | None:
    """The refusal in one result of a batch."""
    status = result.get("status")
    return error_from_status(status) if status is not None else None
