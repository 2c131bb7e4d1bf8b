from __future__ import annotations

import asyncio
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
    log.write_piece(b"stdout", log.write_lines(b"stdout", line + b"\nnext\nno newline"))
    assert asyncio.run(everything(directory)) == line + b"\nnext\nno newline"


def test_carriage_returns_and_other_controls_are_part_of_their_line(tmp_path: Path) -> None:
    directory = a_place(tmp_path)
    log = shim_streams.Log(str(directory.log("main", 0)))
    written = b"begun\n10%\r20%\r\n\x0bup\x0c\x1c\x85\nend\n"
    log.write_lines(b"stdout", written)
    assert asyncio.run(everything(directory)) == written
    assert asyncio.run(everything(directory, tail_lines=3)) == written.removeprefix(b"begun\n")
    assert asyncio.run(everything(directory, since_seconds=3600)) == written


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"stdout", b"stderr"]), st.sampled_from([b"10%\r", b"a b", b"end\nx", b"\n", b" P \n"])
        )
    ),
    st.sets(st.integers(0, 20)),
    st.integers(0, 5),
)
def test_lines_told_in_pieces_are_given_back_as_if_told_whole(
    said: list[tuple[bytes, bytes]], stood: set[int], tail: int
) -> None:
    said = [*said, (b"stdout", b"\n"), (b"stderr", b"\n")]
    with tempfile.TemporaryDirectory() as folder:
        whole, pieces = a_place(Path(folder, "whole")), a_place(Path(folder, "pieces"))
        _write(whole, said, set())
        _write(pieces, said, stood)
        for options in ({}, {"tail_lines": tail}, {"limit_bytes": tail * 3}, {"since_seconds": 3600}):
            assert asyncio.run(everything(pieces, **options)) == asyncio.run(everything(whole, **options))


def _write(directory: PodDirectory, said: list[tuple[bytes, bytes]], stood: set[int]) -> None:
    """As the shim does; after the ones in `stood`, what is unfinished has stood long enough to be told."""
    log = shim_streams.Log(str(directory.log("main", 0)))
    rests = {b"stdout": b"", b"stderr": b""}
    for number, (stream, data) in enumerate(said):
        rests[stream] = log.write_lines(stream, rests[stream] + data)
        if number in stood:
            for each, rest in rests.items():
                log.write_piece(each, rest)
            rests = dict.fromkeys(rests, b"")
    log.close()


def test_a_line_in_pieces_has_one_time_and_counts_once(tmp_path: Path) -> None:
    directory = a_place(tmp_path)
    directory.log("main", 0).write_bytes(
        b"2030-01-01T00:00:00Z stdout F begun\n"
        b"2030-01-01T00:00:01Z stderr P 10%\n"
        b"2030-01-01T00:00:02Z stdout F other\n"
        b"2030-01-01T00:00:03Z stderr P \r20%\n"
        b"2030-01-01T00:00:04Z stderr F \r100%\n"
        b"2030-01-01T00:00:05Z stdout P name?\n"
    )
    assert asyncio.run(everything(directory, timestamps=True)) == (
        b"2030-01-01T00:00:00Z begun\n"
        b"2030-01-01T00:00:02Z other\n"
        b"2030-01-01T00:00:04Z 10%\r20%\r100%\n"
        b"2030-01-01T00:00:05Z name?"
    )
    assert asyncio.run(everything(directory, tail_lines=1)) == b"name?"
    assert asyncio.run(everything(directory, tail_lines=2)) == b"10%\r20%\r100%\nname?"
    late = datetime(2030, 1, 1, 0, 0, 4, tzinfo=UTC)
    assert asyncio.run(everything(directory, since_time=late)) == b"10%\r20%\r100%\nname?"


def a_running_bar(tmp_path: Path) -> tuple[PodDirectory, shim_streams.Log]:
    directory = a_place(tmp_path)
    log = shim_streams.Log(str(directory.log("main", 0)))
    log.write_lines(b"stdout", b"begun\n")
    log.write_piece(b"stdout", b"10%")
    us = records.process_id(os.getpid())
    started = {"shim": us, "container": us, "startedAt": "2030-01-01T00:00:00Z"}
    records.write(str(directory.attempt("main", 0) / "started.json"), started)
    return directory, log


def test_who_follows_is_given_lines_whole_and_none_inside_another(tmp_path: Path) -> None:
    directory, log = a_running_bar(tmp_path)

    async def follow() -> None:
        following = read_log(directory, "main", LogOptions(follow=True), SystemClock())
        async with asyncio.timeout(60):
            assert await anext(following) == b"begun\n"
            log.write_lines(b"stderr", b"loss\n")
            assert await anext(following) == b"loss\n"
            log.write_lines(b"stdout", b"\r100%\n")
            assert await anext(following) == b"10%\r100%\n"
            log.write_piece(b"stdout", b"name?")
            directory.write_exit("main", 0, {"code": 0})
            assert b"".join([piece async for piece in following]) == b"name?"

    asyncio.run(follow())


def test_a_line_that_never_ends_is_not_held_back_for_ever(tmp_path: Path) -> None:
    directory, log = a_running_bar(tmp_path)
    written = b"10%"

    async def follow() -> None:
        nonlocal written
        following = read_log(directory, "main", LogOptions(follow=True), SystemClock())
        async with asyncio.timeout(60):
            assert await anext(following) == b"begun\n"
            for _ in range(100):
                log.write_piece(b"stdout", b"x" * 16_000)
                written += b"x" * 16_000
            found = await anext(following)
            assert len(found) > 1 << 20
            log.write_lines(b"stdout", b"end\n")
            directory.write_exit("main", 0, {"code": 0})
            assert found + b"".join([piece async for piece in following]) == written + b"end\n"

    asyncio.run(follow())


def test_who_asks_for_it_sees_a_line_before_its_end(tmp_path: Path) -> None:
    directory, log = a_running_bar(tmp_path)

    async def follow() -> None:
        following = read_log(directory, "main", LogOptions(follow=True, unfinished=True), SystemClock())
        async with asyncio.timeout(60):
            assert await anext(following) == b"begun\n10%"
            log.write_piece(b"stdout", b"\r20%")
            assert await anext(following) == b"\r20%"
            log.write_lines(b"stdout", b"\r100%\nend\n")
            assert await anext(following) == b"\r100%\nend\n"
            directory.write_exit("main", 0, {"code": 0})
            assert [piece async for piece in following] == []

    asyncio.run(follow())


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
