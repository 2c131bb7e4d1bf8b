"""Who has to go when too much is written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hekla.api.kinds import Obj
from hekla.node.directory import PodDirectory
from hekla.node.storage import over_limit, runs_out, used, verdicts


def a_pod(**container: object) -> Obj:
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "free", "emptyDir": {}}]
    return {"spec": {"containers": [{"name": "main", **container}], "volumes": volumes}}


@dataclass
class Resident:
    directory: PodDirectory
    pod: Obj = field(default_factory=a_pod)

    def evict(self, message: str) -> None: ...


def a_directory(data_dir: Path, uid: str, **sizes: int) -> PodDirectory:
    """A pod that has written so much below these folders."""
    directory = PodDirectory(data_dir, uid)
    for name, size in sizes.items():
        folder = directory.path / {"volume": "volumes/v", "other": "volumes/free", "main": "containers/main/0"}[name]
        folder.mkdir(parents=True)
        (folder / "big").write_bytes(b"x" * size)
    return directory


def test_a_volume_beyond_its_limit_is_named(tmp_path: Path) -> None:
    message = over_limit(a_pod(), a_directory(tmp_path, "u", volume=2 << 20))
    assert message == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '


def test_a_container_beyond_its_limit_is_named(tmp_path: Path) -> None:
    pod = a_pod(resources={"limits": {"ephemeral-storage": "1Mi"}})
    message = over_limit(pod, a_directory(tmp_path, "u", main=2 << 20))
    assert message == 'Container main exceeded its local ephemeral storage limit "1Mi". '


def test_who_has_no_limit_or_stays_below_it_may_stay(tmp_path: Path) -> None:
    pod = a_pod(resources={"limits": {"ephemeral-storage": "4Mi"}})
    assert over_limit(pod, a_directory(tmp_path, "u", volume=1 << 19, other=8 << 20, main=1 << 20)) == ""


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "big").write_bytes(b"x" * (1 << 20))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "far")
    assert used(tmp_path / "here") < 1 << 16


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid():
        pytest.skip("only root may mount a disk of its own")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=200", "small", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_when_room_runs_out_the_largest_goes(small_disk: Path) -> None:
    residents = [
        Resident(a_directory(small_disk, "small", other=1 << 20)),
        Resident(a_directory(small_disk, "large", other=8 << 20)),
    ]
    assert verdicts(small_disk, list(residents)) == []
    (small_disk / "filling").write_bytes(b"x" * int(6.5 * (1 << 20)))
    assert runs_out(small_disk) == "ephemeral-storage"
    [(gone, message)] = verdicts(small_disk, list(residents))
    assert gone.directory.uid == "large"
    assert message == "The node was low on resource: ephemeral-storage. "


def test_room_for_files_runs_out_too(small_disk: Path) -> None:
    for number in range(195):
        (small_disk / str(number)).touch()
    assert runs_out(small_disk) == "inodes"
