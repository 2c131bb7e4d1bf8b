from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

import pytest

from hekla.node.context import NodeContext
from hekla.node.directory import PodDirectory
from hekla.node.hooks.sources import MissingSource, Place, Sources
from hekla.node.rootfs import open_within
from hekla.node.starter import Starter, host_path


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


def test_who_is_told_to_stop_writing_files_has_stopped_when_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, done = (threading.Event() for _ in range(3))

    def prepare(*_: object) -> None:
        begun.set()
        go_on.wait(5)
        done.set()

    async def main() -> None:
        starter = Starter(cast(NodeContext, None), PodDirectory(tmp_path, "uid"))
        monkeypatch.setattr(starter, "_prepare_files", prepare)
        writing = asyncio.create_task(starter._write_files({}, Sources("ns"), ""))
        await asyncio.to_thread(begun.wait, 5)
        writing.cancel()
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        await asyncio.wait([writing])
        assert writing.cancelled()
        assert done.is_set()

    asyncio.run(main())
