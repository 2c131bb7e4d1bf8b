"""Reading container logs back: the lines the shim wrote, as `kubectl logs` wants them.

Each line on disk is `<time> <stream> <F|P> <text>`; P marks a piece whose line goes on.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from hekla.api.meta import parse_timestamp
from hekla.clock import Clock
from hekla.node import records
from hekla.node.directory import PodDirectory
from hekla.node.exec import readable
from hekla.node.syscalls import watch_directory

_CHUNK = 64 * 1024


@dataclass(frozen=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> LogOptions:
        """From the parameters of the API. Raises ValueError for a number that is none."""
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            tail_lines=_number(query, "tailLines"),
            since_seconds=_number(query, "sinceSeconds"),
            since_time=parse_timestamp(query["sinceTime"]) if query.get("sinceTime") else None,
            limit_bytes=_number(query, "limitBytes"),
        )

    def since(self, now: datetime) -> datetime | None:
        if self.since_seconds is not None:
            return now - timedelta(seconds=self.since_seconds)
        return self.since_time


async def read_log(directory: PodDirectory, container: str, options: LogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """The log of the newest attempt (or the one before it), in pieces; with `follow` until the attempt has ended."""
    numbers = directory.attempt_numbers(container)
    number = numbers[-2 if options.previous and len(numbers) > 1 else -1]
    left = options.limit_bytes
    async for piece in _pieces(directory, container, number, options, clock):
        if left is not None:
            piece, left = piece[:left], left - len(piece)
        if piece:
            yield piece
        if left is not None and left <= 0:
            return


async def _pieces(
    directory: PodDirectory, container: str, number: int, options: LogOptions, clock: Clock
) -> AsyncIterator[bytes]:
    path = directory.log(container, number)
    since = options.since(clock.now())
    data, position = await asyncio.to_thread(_read_from, path, 0)
    lines = data.splitlines(keepends=True)
    if since is not None:
        lines = [line for line in lines if _is_after(line, since)]
    if options.tail_lines is not None:
        lines = _tail(lines, options.tail_lines)
    yield b"".join(_shown(line, options.timestamps) for line in lines)
    if options.follow and not options.previous:
        async for data in _growth(directory, container, number, position):
            yield b"".join(_shown(line, options.timestamps) for line in data.splitlines(keepends=True))


async def _growth(directory: PodDirectory, container: str, number: int, position: int) -> AsyncIterator[bytes]:
    """What is added to the log after `position`, until the attempt has ended and all of it is told."""
    watch = watch_directory(str(directory.attempt(container, number)))
    started = directory.start_record(container, number)
    shim = records.open_process(started["shim"]) if started is not None else None
    try:
        while True:
            # Asked before reading: what an attempt wrote before it ended is then surely in the file.
            ended = shim is None or directory.exit_record(container, number) is not None or _is_readable(shim)
            data, position = await asyncio.to_thread(_read_from, directory.log(container, number), position)
            if data:
                yield data
            elif ended:
                return
            else:
                await readable(watch, *([shim] if shim is not None else []))
                _drain(watch)
    finally:
        os.close(watch)
        if shim is not None:
            os.close(shim)


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _drain(descriptor: int) -> None:
    try:
        os.read(descriptor, _CHUNK)
    except BlockingIOError:
        pass


def _read_from(path: Path, position: int) -> tuple[bytes, int]:
    """Whole lines from `position` on, and where the next ones begin."""
    try:
        with path.open("rb") as file:
            file.seek(position)
            data = file.read()
    except FileNotFoundError:
        return b"", position
    data = data[: data.rfind(b"\n") + 1]
    return data, position + len(data)


def _shown(line: bytes, timestamps: bool) -> bytes:
    moment, _, rest = line.partition(b" ")
    _, _, rest = rest.partition(b" ")
    tag, _, text = rest.partition(b" ")
    if tag == b"P":
        text = text.removesuffix(b"\n")
    return moment + b" " + text if timestamps else text


def _tail(lines: list[bytes], count: int) -> list[bytes]:
    """The last `count` whole lines; the pieces of one line count once."""
    kept: deque[bytes] = deque()
    for line in reversed(lines):
        if line.split(b" ", 3)[2] == b"F":
            count -= 1
        if count < 0:
            break
        kept.appendleft(line)
    return list(kept)


def _is_after(line: bytes, since: datetime) -> bool:
    return parse_timestamp(line.partition(b" ")[0].decode()) >= since


def _flag(query: Mapping[str, str], key: str) -> bool:
    return query.get(key, "").lower() in ("true", "1", "t")


def _number(query: Mapping[str, str], key: str) -> int | None:
    if not query.get(key):
        return None
    value = int(query[key])
    if value < 0:
        raise ValueError(f"{key} must be greater than or equal to 0")
    return value
