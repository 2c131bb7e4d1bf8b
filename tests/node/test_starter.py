from __future__ import annotations

from pathlib import Path

import pytest

from hekla.node.hooks.sources import MissingSource, Place
from hekla.node.rootfs import open_within
from hekla.node.starter import host_path


def test_a_host_path_is_looked_at_anew_before_every_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "x").mkdir(parents=True)
    source = {"path": str(data / "x"), "type": ""}
    place = host_path(source, [data])
    assert place == Place(str(data), "x")
    (data / "x").rmdir()
    (data / "x").symlink_to("/")
    with pytest.raises(MissingSource, match="not among the paths"):
        host_path(source, [data])
    # Whoever was faster than the look gets nothing either.
    with pytest.raises(OSError, match="leads outside"):
        open_within(place.root, place.below, create=False)


def test_a_missing_host_path_is_made_where_that_is_asked_for_and_allowed(tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    for each in (data, outside):
        each.mkdir()
    (data / "link").symlink_to(outside)
    assert host_path({"path": str(data / "a/b"), "type": "DirectoryOrCreate"}, [data]) == Place(str(data), "a/b")
    assert (data / "a/b").is_dir()
    with pytest.raises(MissingSource):
        host_path({"path": str(data / "link/new"), "type": "DirectoryOrCreate"}, [data])
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(("name", "kind"), [("gone", ""), ("file", "Directory"), ("folder", "File")])
def test_a_host_path_of_another_type_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(MissingSource, match="type check failed"):
        host_path({"path": str(tmp_path / name), "type": kind}, [tmp_path])
