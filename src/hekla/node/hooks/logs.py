"""Reading container logs back: the lines the shim wrote, as `kubectl logs` wants them.

Each record on disk is `<time> <stream> <F|P> <text>`; P marks a piece whose line goes on. The
newest file is `log`, older ones are `log.1` and so on; the shim renames them when one is full.

Lines are given whole, in the order in which they ended: pieces of one stream are never torn apart by
lines of the other. Who follows may ask for `unfinished` ones, and is then given each piece when it comes,
as a terminal would be.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import os
import select
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from hekla.api.meta import parse_timestamp
from hekla.clock import Clock
from hekla.node import records
from hekla.node.directory import PodDirectory
from hekla.node.exec import readable
from hekla.node.shim_streams import LOG_FILES
from hekla.node.syscalls import watch_directory

_CHUNK = 64 * 1024
_MOST_HELD_BACK = 1 << 20  # of a line that does not end, while somebody follows


@dataclass(frozen=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    back: int = 1  # with `previous`: how many attempts
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None
    unfinished: bool = False

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> LogOptions:
        """From the parameters of the API. Raises ValueError for a number that is none."""
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            back=_number(query, "back", least=1) or 1,
            timestamps=_flag(query, "timestamps"),
            tail_lines=_number(query, "tailLines"),
            since_seconds=_number(query, "sinceSeconds"),
            since_time=parse_timestamp(query["sinceTime"]) if query.get("sinceTime") else None,
            limit_bytes=_number(query, "limitBytes"),
            unfinished=_flag(query, "unfinished"),
        )

    def since(self, now: datetime) -> datetime | None:
        if self.since_seconds is not None:
            return now - timedelta(seconds=self.since_seconds)
        return self.since_time


async def read_log(directory: PodDirectory, container: str, options: LogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """The log of the newest attempt (or one before it), in pieces; with `follow` until the attempt has ended."""
    numbers = directory.attempt_numbers(container)
    number = numbers[-1 - options.back if options.previous and len(numbers) > options.back else -1]
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
    with contextlib.closing(_Reader(directory.log(container, number))) as reader:
        async for piece in _read_and_follow(reader, directory, container, number, options, clock):
            yield piece


async def _read_and_follow(
    reader: _Reader, directory: PodDirectory, container: str, number: int, options: LogOptions, clock: Clock
) -> AsyncIterator[bytes]:
    since = options.since(clock.now())
    goes_on = options.follow and not options.previous
    joining = _Lines()
    lines = joining.take(await asyncio.to_thread(reader.read))
    if options.unfinished or not goes_on:
        lines += joining.rest()
    if since is not None:
        lines = [line for line in lines if _is_after(line, since)]
    if options.tail_lines is not None:
        lines = lines[max(0, len(lines) - options.tail_lines) :]
    shown = _Shown(options.timestamps)
    yield shown.text(lines)
    if goes_on:
        async for data in _growth(directory, container, number, reader):
            yield shown.text(_records(data) if options.unfinished else joining.take(data, most=_MOST_HELD_BACK))
        if not options.unfinished:
            yield shown.text(joining.rest())


async def _growth(directory: PodDirectory, container: str, number: int, reader: _Reader) -> AsyncIterator[bytes]:
    """What is added to the log from now on, until the attempt has ended and all of it is told."""
    watch = watch_directory(str(directory.attempt(container, number)))
    started = directory.start_record(container, number)
    shim = records.open_process(started["shim"]) if started is not None else None
    try:
        while True:
            # Asked before reading: what an attempt wrote before it ended is then surely in the file.
            ended = shim is None or directory.exit_record(container, number) is not None or _is_readable(shim)
            data = await asyncio.to_thread(reader.read)
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


class _Reader:
    """Reads a log once, from its oldest file to its newest, and goes on where it was even when files are renamed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None  # where we are; kept open, so that its inode is not given to another

    def read(self) -> bytes:
        """All whole records not given before."""
        pieces = []
        for file in self._newer_files():
            pieces.append(self._rest())
            self.close()
            self._file = file
        pieces.append(self._rest())
        return b"".join(pieces)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _rest(self) -> bytes:
        if self._file is None:
            return b""
        begun = self._file.tell()
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        self._file.seek(begun + whole)
        return data[:whole]

    def _newer_files(self) -> list[BinaryIO]:
        """Those after the one we are in, oldest first; all of them when it has been dropped already."""
        while True:
            newest = self._newest()
            found = self._look()
            if self._newest() == newest:
                return found
            # Files were renamed while we looked: their order may not be what their names said.
            for file in found:
                file.close()

    def _newest(self) -> int | None:
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return None

    def _look(self) -> list[BinaryIO]:
        """Newest first: one that is renamed meanwhile is then met twice, and not missed."""
        seen = {_inode(self._file)} if self._file is not None else set()
        found: list[BinaryIO] = []
        for name in [self._path.name, *(f"{self._path.name}.{number}" for number in range(1, LOG_FILES))]:
            try:
                file = self._path.with_name(name).open("rb")
            except FileNotFoundError:
                continue
            if self._file is not None and _inode(file) == _inode(self._file):
                file.close()
                break
            if _inode(file) in seen:
                file.close()
                continue
            seen.add(_inode(file))
            found.append(file)
        return found[::-1]


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _drain(descriptor: int) -> None:
    try:
        os.read(descriptor, _CHUNK)
    except BlockingIOError:
        pass


def _records(data: bytes) -> list[bytes]:
    """With their ends. A carriage return ends none, unlike for `splitlines`: progress bars are full of them."""
    return io.BytesIO(data).readlines()


class _Lines:
    """Records joined to one for each line, with the time of its last piece."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, list[bytes]] = {}
        self._times: dict[bytes, bytes] = {}
        self._held: dict[bytes, int] = {}  # bytes of these pieces

    def take(self, data: bytes, *, most: float = math.inf) -> list[bytes]:
        """The lines that end here. Of one that has grown longer than `most` bytes, what there is, marked as a piece."""
        records = _records(data)
        if not self._pieces and b" P " not in data:
            return records
        lines: list[bytes] = []
        for record in records:
            time, stream, tag, text = record.split(b" ", 3)
            if tag == b"P":
                self._pieces.setdefault(stream, []).append(text.removesuffix(b"\n"))
                self._times[stream] = time
                self._held[stream] = self._held.get(stream, 0) + len(text)
                if self._held[stream] > most:
                    lines.append(b"%b %b P %b\n" % (time, stream, b"".join(self._pieces.pop(stream))))
                    self._held[stream] = 0
            elif stream in self._pieces:
                self._held[stream] = 0
                lines.append(b"%b %b F %b%b" % (time, stream, b"".join(self._pieces.pop(stream)), text))
            else:
                lines.append(record)
        return lines

    def rest(self) -> list[bytes]:
        """What has not ended, marked as such."""
        return [b"%b %b P %b\n" % (self._times[one], one, b"".join(texts)) for one, texts in self._pieces.items()]


class _Shown:
    """Records as their reader wants them. With `timestamps` a line begins with its time, however many pieces it has."""

    def __init__(self, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._line_begins = True

    def text(self, records: list[bytes]) -> bytes:
        parts = []
        for record in records:
            time, _, tag, text = record.split(b" ", 3)
            if self._timestamps and self._line_begins:
                parts += [time, b" "]
            self._line_begins = tag != b"P"
            parts.append(text if self._line_begins else text.removesuffix(b"\n"))
        return b"".join(parts)


def _is_after(line: bytes, since: datetime) -> bool:
    return parse_timestamp(line.partition(b" ")[0].decode()) >= since


def _flag(query: Mapping[str, str], key: str) -> bool:
    return query.get(key, "").lower() in ("true", "1", "t")


def _number(query: Mapping[str, str], key: str, least: int = 0) -> int | None:
    if not query.get(key):
        return None
    value = int(query[key])
    if value < least:
        raise ValueError(f"{key} must be greater than or equal to {least}")
    return value
