from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import Obj
from hekla.node.hooks.mounts import MountError, volume_binds
from hekla.node.hooks.sources import MissingSource, Place, Sources
from hekla.node.hooks.volumes import (
    File,
    directory_behind,
    is_in_memory,
    is_within,
    mounted_in_part,
    place_within,
    unsupported_volumes,
    volume_files,
    write_files,
)

_SOURCES = Sources(
    "ns", {("configmap", "cm"): {"data": {"a": "1", "b": "2"}}, ("secret", "s"): {"data": {"k": "aGk="}}}
)
_POD: Obj = {"metadata": {"name": "p", "namespace": "ns", "labels": {"x": 'a"b'}}, "spec": {"containers": []}}


def files_of(volume: Obj) -> dict[str, File]:
    facts: dict[str, Any] = {"node": "n1", "address": "10.0.0.2", "allocatable": {}}
    return volume_files(volume, _POD, _SOURCES, **facts)


def test_items_choose_rename_and_set_modes() -> None:
    volume = {"configMap": {"name": "cm", "defaultMode": 0o600, "items": [{"key": "a", "path": "x/y", "mode": 0o400}]}}
    assert files_of(volume) == {"x/y": File(b"1", 0o400)}
    assert files_of({"secret": {"secretName": "s", "defaultMode": 0o600}}) == {"k": File(b"hi", 0o600)}


def test_a_projected_volume_joins_its_sources() -> None:
    labels = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    sources = [{"configMap": {"name": "cm"}}, {"secret": {"name": "s"}}, {"downwardAPI": labels}]
    found = files_of({"projected": {"sources": sources, "defaultMode": 0o440}})
    assert {name: file.data for name, file in found.items()} == {
        "a": b"1",
        "b": b"2",
        "k": b"hi",
        "labels": b'x="a\\"b"',
    }
    assert {file.mode for file in found.values()} == {0o440}


@pytest.mark.parametrize("path", ["../up", "/abs", "a/../../b", "..data"])
def test_a_path_that_leads_out_of_the_volume_is_refused(path: str) -> None:
    with pytest.raises(MissingSource):
        files_of({"configMap": {"name": "cm", "items": [{"key": "a", "path": path}]}})


def test_files_are_swapped_whole(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    write_files(volume, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o400)})
    held = (volume / "a").open("rb")
    assert (volume / "d/b").stat().st_mode & 0o777 == 0o400
    write_files(volume, {"a": File(b"new", 0o644), "c": File(b"3", 0o644)})
    with held:
        assert held.read() == b"1"
    assert (volume / "a").read_bytes() == b"new"
    visible = sorted(entry.name for entry in volume.iterdir() if not entry.name.startswith(".."))
    assert visible == ["a", "c"]


@pytest.mark.parametrize("new", [b"1", b"2"])
def test_a_part_that_somebody_has_mounted_stays(tmp_path: Path, new: bytes) -> None:
    """Keys mounted by subPath were gone when the pod's token was replaced, 48 minutes after its start."""
    volume = tmp_path / "v"
    write_files(volume, {".ssh/id": File(b"1", 0o600), ".ssh/config": File(b"x", 0o600)}, keep=True)
    mounted = os.open(volume / ".ssh", os.O_PATH)
    write_files(volume, {".ssh/id": File(new, 0o600), ".ssh/config": File(b"x", 0o600)}, keep=True)
    assert Path(f"/proc/self/fd/{mounted}/id").read_bytes() == b"1"
    assert (volume / ".ssh/id").read_bytes() == new
    os.close(mounted)


def test_what_has_not_changed_is_left_alone(tmp_path: Path) -> None:
    files = {"a": File(b"1", 0o644), "./d//b": File(b"2", 0o400)}
    write_files(tmp_path, files)
    before = (tmp_path / "..data").readlink()
    write_files(tmp_path, files)
    assert (tmp_path / "..data").readlink() == before
    write_files(tmp_path, {"a": File(b"1", 0o644)})
    assert sorted(each.name for each in (tmp_path / "..data").iterdir()) == ["a"]


def test_files_are_to_be_seen_though_their_writer_was_stopped_before_they_were(tmp_path: Path) -> None:
    files = {"a": File(b"1", 0o644), "d/b": File(b"2", 0o644)}
    write_files(tmp_path, files)
    for name in ("a", "d"):
        (tmp_path / name).unlink()
    write_files(tmp_path, files)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "d/b").read_bytes()) == (b"1", b"2")


def test_which_volumes_are_mounted_in_part() -> None:
    whole = {"name": "c", "volumeMounts": [{"name": "whole", "mountPath": "/w"}]}
    part = {"name": "i", "volumeMounts": [{"name": "part", "mountPath": "/p", "subPath": ".ssh"}]}
    named = {"name": "n", "volumeMounts": [{"name": "named", "mountPath": "/n", "subPathExpr": "$(POD)"}]}
    spec = {"containers": [whole, named], "initContainers": [part]}
    assert mounted_in_part({"spec": spec}) == {"part", "named"}


def test_secrets_are_kept_in_memory() -> None:
    assert is_in_memory({"secret": {}})
    assert is_in_memory({"projected": {}})
    assert is_in_memory({"emptyDir": {"medium": "Memory"}})
    assert not is_in_memory({"configMap": {}})
    assert not is_in_memory({"emptyDir": {}})


def test_what_cannot_be_given_is_listed_by_name_and_kind() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}, {"name": "c", "nfs": {}}]
    assert unsupported_volumes({"spec": {"volumes": volumes}}) == ["c (nfs)"]


def test_outer_mounts_come_before_inner_ones(tmp_path: Path) -> None:
    mounts = [{"name": "v", "mountPath": "/a/b/c"}, {"name": "v", "mountPath": "/a", "readOnly": True}]
    found = volume_binds({"volumeMounts": mounts}, {"v": Place(str(tmp_path))}, frozenset(), {})
    assert [(bind["target"], bind["read_only"]) for bind in found] == [("/a", True), ("/a/b/c", False)]


def test_a_subpath_must_stay_inside_its_volume(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    volume.mkdir()
    for subpath in ("../x", "/etc", "a/../../x"):
        mount = {"name": "v", "mountPath": "/a", "subPath": subpath}
        with pytest.raises(MountError):
            volume_binds({"volumeMounts": [mount]}, {"v": Place(str(volume))}, frozenset(), {})
    inside = {"name": "v", "mountPath": "/a", "subPath": "x/y"}
    bind = volume_binds({"volumeMounts": [inside]}, {"v": Place(str(volume))}, frozenset(), {})[0]
    assert (bind["source"], bind["within"]) == (str(volume), "x/y")


def test_the_containers_variables_say_which_part_of_a_volume_is_meant(tmp_path: Path) -> None:
    def part(pattern: str) -> str:
        mount = {"name": "v", "mountPath": "/a", "subPathExpr": pattern}
        env = {"POD": "train-worker-1", "UP": "../x"}
        return volume_binds({"volumeMounts": [mount]}, {"v": Place(str(tmp_path))}, frozenset(), env)[0]["within"]

    assert part("runs/$(POD)") == "runs/train-worker-1"
    assert part("$$(POD)") == "$(POD)"
    with pytest.raises(MountError, match='missing value for "JOB"'):
        part("$(POD)/$(JOB)")
    with pytest.raises(MountError, match="must be relative"):
        part("$(UP)")


def test_a_mount_of_no_volume_is_refused() -> None:
    with pytest.raises(MountError, match="names no volume"):
        volume_binds({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}, {}, frozenset(), {})


def test_a_path_is_allowed_with_its_links_resolved(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    for each in (allowed, other):
        each.mkdir()
    (allowed / "out").symlink_to(other)
    assert is_within(allowed / "x", [allowed])
    assert is_within(allowed, [allowed])
    for outside in (other, allowed / "out", allowed / ".." / "other", tmp_path / "allowed2"):
        assert not is_within(outside, [allowed])


def test_an_allowed_path_in_another_is_as_good_as_the_outer_one(tmp_path: Path) -> None:
    allowed = [tmp_path / "data", tmp_path / "data/x"]
    allowed[1].mkdir(parents=True)
    assert place_within(allowed[1], allowed) == Place(str(allowed[0]), "x")
    allowed[1].rmdir()
    allowed[1].symlink_to("/")
    assert place_within(allowed[1], allowed) is None
    assert place_within(Path("/etc"), allowed) is None


def test_a_claim_gives_its_directory_once_it_is_bound_and_only_within_bounds(tmp_path: Path) -> None:
    bound = {"status": {"phase": "Bound"}}
    here, elsewhere = ({"spec": {"hostPath": {"path": str(path)}}} for path in (tmp_path / "v", Path("/etc")))
    assert directory_behind(bound, here, "c", [tmp_path]) == Place(str(tmp_path), "v")
    for claim, volume, why in (
        (None, None, "not found"),
        ({"status": {"phase": "Pending"}}, None, "not bound yet"),
        (bound, elsewhere, "may mount"),
        (bound, {"spec": {"nfs": {}}}, "may mount"),
    ):
        with pytest.raises(MissingSource, match=why):
            directory_behind(claim, volume, "c", [tmp_path])
