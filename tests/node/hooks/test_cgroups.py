from __future__ import annotations

from pathlib import Path

import pytest

from hekla.api.kinds import Obj
from hekla.node.hooks.cgroups import find_cgroups, limit_files


def container(**resources: dict[str, str]) -> Obj:
    return {"name": "main", "resources": resources}


@pytest.mark.parametrize(
    ("controller", "unified", "files"),
    [
        ("memory", False, {"memory.limit_in_bytes": "67108864"}),
        ("memory", True, {"memory.max": "67108864", "memory.oom.group": "1"}),
        ("cpu", False, {"cpu.shares": "512", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
        ("cpu", True, {"cpu.weight": "20", "cpu.max": "150000 100000"}),
    ],
)
def test_limits_become_files(controller: str, unified: bool, files: dict[str, str]) -> None:
    asked = container(limits={"cpu": "1500m", "memory": "64Mi"}, requests={"cpu": "500m"})
    assert dict(limit_files(asked, controller, unified=unified)) == files


def test_a_container_without_limits_needs_no_group() -> None:
    asked = container(requests={"cpu": "1", "memory": "1Gi"})
    assert limit_files(asked, "memory", unified=True) == []
    assert limit_files(asked, "cpu", unified=False) == []


def test_a_tiny_limit_is_raised_to_what_the_kernel_takes() -> None:
    assert ("cpu.cfs_quota_us", "1000") in limit_files(container(limits={"cpu": "1m"}), "cpu", unified=False)


@pytest.mark.root
def test_groups_that_somebody_removed_are_made_again(tmp_path: Path) -> None:
    cgroups = find_cgroups(tmp_path)
    if cgroups is None:
        pytest.skip("this machine gives root no control groups")
    try:
        for root in dict.fromkeys(cgroups.roots.values()):
            Path(root).rmdir()
        folders = cgroups.create("pod", container(limits={"memory": "64Mi", "cpu": "1"}))
        assert folders
        assert all(Path(folder, "cgroup.procs").exists() for folder in folders)
    finally:
        cgroups.remove()
    assert not any(Path(root).exists() for root in cgroups.roots.values())
