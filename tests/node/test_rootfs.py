"""Paths in volumes that others are changing meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hekla.node.rootfs import open_within
from tests.eventually import eventually


def test_what_is_missing_is_made_inside_the_volume(tmp_path: Path) -> None:
    os.close(open_within(str(tmp_path), "a/b/c", create=True))
    assert (tmp_path / "a/b/c").is_dir()


def test_a_link_may_lead_to_another_place_in_the_volume(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = open_within(str(tmp_path), "link", create=True)
    assert os.path.samestat(os.fstat(found), (tmp_path / "real").stat())
    os.close(found)


@pytest.mark.parametrize("target", ["..", "/etc", "../..", "/proc/self/root"])
def test_a_link_that_leads_out_is_refused_and_nothing_is_made_there(tmp_path: Path, target: str) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to(target)
    for path in ("link", "link/hekla-was-here"):
        with pytest.raises(OSError, match="leads outside the volume"):
            open_within(str(volume), path, create=True)
    assert not (tmp_path / "hekla-was-here").exists()
    assert not Path("/etc/hekla-was-here").exists()


def test_nothing_is_made_where_nothing_may_be(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="does not exist in the volume"):
        open_within(str(tmp_path), "absent", create=False)


@dataclass(frozen=True)
class Race:
    """What came of asking for a path again and again while somebody swapped a folder in it for a link."""

    escapes: int
    refusals: int
    made_outside: int


def race(place: Path, rounds: int) -> Race:
    volume, outside = place / "volume", place / "outside"
    (volume / "a").mkdir(parents=True)
    (volume / "evil").symlink_to(outside)
    outside.mkdir()
    escapes = refusals = 0
    with _swapping(volume / "a", volume / "evil"):
        for _ in range(rounds):
            try:
                found = open_within(str(volume), "a/b", create=True)
            except OSError:
                refusals += 1
                continue
            path = str(Path(f"/proc/self/fd/{found}").readlink())
            os.close(found)
            escapes += not path.startswith(f"{volume}/")
    return Race(escapes, refusals, len(list(outside.iterdir())))


def test_somebody_who_swaps_folders_for_links_all_the_time_gets_nothing(tmp_path: Path) -> None:
    rounds = 20_000
    found = race(tmp_path, rounds)
    assert (found.escapes, found.made_outside) == (0, 0)
    assert 0 < found.refusals < rounds, "the racer never got in between: this has tried nothing"


_RACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
one, other = map(os.fsencode, sys.argv[1:])
while True:
    libc.renameat2(-100, one, -100, other, 2)
"""


@contextmanager
def _swapping(one: Path, other: Path) -> Iterator[None]:
    """Somebody exchanging the two, as fast as the kernel can."""
    racer = subprocess.Popen([sys.executable, "-S", "-c", _RACER, one, other])
    try:
        eventually(one.is_symlink, what="the racer is at work")
        yield
    finally:
        racer.kill()
        racer.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(race(Path(directory).resolve(), int(sys.argv[1])))
