"""Bytes carried between two connections, both ways."""

from __future__ import annotations

import asyncio

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PIECE = 1 << 16


async def tunnel(one: Stream, other: Stream) -> None:
    """Until either side ends. Closing them stays with the caller."""
    async with asyncio.TaskGroup() as tasks:
        ways = [tasks.create_task(_copy(one[0], other[1])), tasks.create_task(_copy(other[0], one[1]))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(_PIECE):
            target.write(data)
            await target.drain()
    except OSError:
        pass  # gone without a goodbye, or not to be reached any more
