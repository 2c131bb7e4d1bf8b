from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from hekla.clock import SystemClock
from hekla.node import records, shim_streams
from hekla.node.directory import PodDirectory
from hekla.node.hooks.logs import LogOptions, read_log


def a_place(folder: Path) -> PodDirectory:
    directory = PodDirectory(folder, "u-1")
    directory.attempt("main", 0).mkdir(parents=True)
    return directory


async def everything(directory: PodDirectory, **options: Any) -> bytes:
    chunks = [chunk async for chunk in read_log(directory, "main", LogOptions(**options), SystemClock())]
    return b"".join(chunks)


def test_a_full_file_makes_room_for_the_next_and_all_is_read_in_order(tmp_path: Path) -> None:
    directory = a_place(tmp_path)
    log = shim_streams.Log(str(directory.log("main", 0)), file_bytes=2000)
    for number in range(100):
        assert log.write_lines(b"stdout", b"line %d\nrest" % number) == b"rest"
    assert directory.log("main", 0).with_name("log.1").exists()
    assert asyncio.run(everything(directory)) == b"".join(b"line %d\n" % number for number in range(100))
    for number in range(1000):
        log.write_lines(b"stdout", b"more %d\n" % number)
    assert len(list(directory.attempt("main", 0).iterdir())) == shim_streams.LOG_FILES
    assert asyncio.run(everything(directory)).endswith(b"more 999\n")


def test_a_long_line_is_kept_in_pieces_and_given_back_whole(tmp_path: Path) -> None:
    directory = a_place(tmp_path)
    log = shim_streams.Log(str(directory.log("main", 0)))
    line = os.urandom(25_000).hex().encode()
    log.write_rest(b"stdout", log.write_lines(b"stdout", line + b"\nnext\nno newline"))
    assert asyncio.run(everything(directory)) == line + b"\nnext\nno newline"


def test_carriage_returns_and_other_controls_are_part_of_their_line(tmp_path: Path) -> None:
    directory = a_place(tmp_path)
    log = shim_streams.Log(str(directory.log("main", 0)))
    written = b"begun\n10%\r20%\r\n\x0bup\x0c\x1c\x85\nend\n"
    log.write_lines(b"stdout", written)
    assert asyncio.run(everything(directory)) == written
    assert asyncio.run(everything(directory, tail_lines=3)) == written.removeprefix(b"begun\n")
    assert asyncio.run(everything(directory, since_seconds=3600)) == written


def test_following_gives_what_comes_later_across_files_and_ends_with_the_container(tmp_path: Path) -> None:
    directory = a_place(tmp_path)
    log = shim_streams.Log(str(directory.log("main", 0)), file_bytes=500)
    log.write_lines(b"stdout", b"early\n")
    us = records.process_id(os.getpid())
    started = {"shim": us, "container": us, "startedAt": "2030-01-01T00:00:00Z"}
    records.write(str(directory.attempt("main", 0) / "started.json"), started)

    async def follow_while_written() -> bytes:
        async with asyncio.timeout(60):
            following = asyncio.create_task(everything(directory, follow=True))
            for number in range(50):
                log.write_lines(b"stderr", b"late %d\n" % number)
                await asyncio.sleep(0)
            directory.write_exit("main", 0, {"code": 0})
            return await following

    lines = asyncio.run(follow_while_written()).splitlines()
    assert lines[-1] == b"late 49"
    assert len(set(lines)) == len(lines)
