from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hekla.clock import SystemClock
from hekla.errors import error_from_status
from hekla.node.context import NodeContext
from hekla.node.directory import PodDirectory
from hekla.node.hooks.images import Images, PullFailed
from hekla.node.hooks.sources import MissingSource, Place, Sources
from hekla.node.podman import Podman
from hekla.node.rootfs import open_within
from hekla.node.settings import NodeSettings
from hekla.node.starter import Starter, host_path, tells_of_no_pod


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


def test_a_pod_that_went_before_it_got_its_token_has_failed_at_nothing() -> None:
    gone = {"reason": "NotFound", "message": 'pods "a" not found', "details": {"name": "a", "kind": "pods"}}
    no_account = {**gone, "details": {"name": "default", "kind": "serviceaccounts"}}
    assert tells_of_no_pod(error_from_status(gone, 404))
    assert not tells_of_no_pod(error_from_status(no_account, 404))
    assert not tells_of_no_pod(MissingSource('configmap "plan" not found'))


def test_who_is_told_to_stop_writing_files_has_stopped_when_it_says_so(tmp_path: Path) -> None:
    """Held up in the middle by a pipe where one of the files should be."""
    directory = PodDirectory(tmp_path, "uid")
    pipe = directory.etc / "hostname"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {}}

    async def main() -> None:
        writing = asyncio.create_task(Starter(context(tmp_path), directory)._write_files(pod, Sources("ns"), ""))
        held = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)  # once it reads what is there
        try:
            pipe.unlink()
            writing.cancel()
            await asyncio.wait([writing], timeout=0.2)
            assert not writing.done()
        finally:
            os.close(held)
        await asyncio.wait([writing])
        assert writing.cancelled()
        assert sorted(path.name for path in directory.etc.iterdir()) == ["hostname", "hosts", "resolv.conf"]

    asyncio.run(main())
    directory.remove()


def test_nobody_waits_behind_those_who_wait_for_podman(tmp_path: Path) -> None:
    """More than threads there are for everything else; podman is a program that answers when the gate goes."""
    program, gate = tmp_path / "podman", tmp_path / "podman.gate"
    program.write_text('#!/bin/sh\n[ ! -p "$0.gate" ] || cat "$0.gate"\nexit 1\n')
    program.chmod(0o700)
    os.mkfifo(gate)
    (tmp_path / "images.yaml").write_text("known: {command: [x]}")
    images = Images(tmp_path / "images.yaml")
    here = replace(context(tmp_path), images=images, podman=Podman(str(program), tmp_path))
    starter = Starter(here, PodDirectory(tmp_path, "uid"))

    async def main() -> None:
        held = os.open(gate, os.O_RDWR)
        unknown = {"name": "c", "image": "unknown", "command": ["x"]}
        waiting = [asyncio.create_task(starter._image(unknown)) for _ in range(40)]
        try:
            await asyncio.sleep(0)
            assert (await starter._image({"name": "c", "image": "known"})).command == ["x"]
            assert not any(task.done() for task in waiting)
        finally:
            gate.unlink()
            os.close(held)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(end) for end in ends} == {PullFailed}

    asyncio.run(main())


def context(folder: Path) -> NodeContext:
    """A node's, as far as writing files needs it."""
    nobody: Any = None
    return NodeContext(
        client=nobody,
        recorder=nobody,
        settings=NodeSettings(name="n", data_dir=folder),
        clock=SystemClock(),
        rng=random.Random(1),
        spawner=nobody,
        launcher=nobody,
        switch=None,
        images=nobody,
    )
