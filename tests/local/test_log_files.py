"""Logs of a cluster that stays up for months do not fill the disk."""

from __future__ import annotations

import os
from pathlib import Path

from hekla.local.log_files import open_log, trim


def test_a_large_log_is_moved_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    writer = open_log(path)
    try:
        os.write(writer, b"old\n" * 10)
        trim(path, largest=39)
        os.write(writer, b"new\n")
    finally:
        os.close(writer)
    assert path.read_bytes() == b"new\n"
    assert (tmp_path / "a.log.1").read_bytes() == b"old\n" * 10
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a.log", "a.log.1")} == {0o600}


def test_a_small_log_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"text")
    trim(path, largest=4)
    assert [file.name for file in tmp_path.iterdir()] == ["a.log"]


def test_only_one_older_log_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for text in (b"first", b"second"):
        path.write_bytes(text)
        trim(path, largest=1)
    assert (tmp_path / "a.log.1").read_bytes() == b"second"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_log_that_is_not_there_is_none(tmp_path: Path) -> None:
    trim(tmp_path / "a.log")
    assert not list(tmp_path.iterdir())
