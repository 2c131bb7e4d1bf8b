from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hekla.cli.unseen_files import unseen_files


def a_pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **container}]}}


def test_a_program_and_a_folder_where_pods_have_their_own_are_named_once(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.touch()
    pod = a_pod(workingDir=str(tmp_path), command=["python3", str(program)], args=["--steps", "3"])
    told = unseen_files([pod, pod], str(tmp_path))
    assert told == (
        f"pods have a {tmp_path} of their own and did not see {tmp_path}, {program}: docs/files.md tells what they see"
    )


@pytest.mark.parametrize("made", [True, False])
def test_what_is_mounted_or_not_there_at_all_is_not_missed(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "runs"
    if made:
        folder.mkdir()
    mounts = [{"name": "runs", "mountPath": str(folder)}] if made else []
    assert unseen_files([a_pod(workingDir=str(folder), volumeMounts=mounts)], str(tmp_path)) == ""


def test_what_pods_see_is_not_told(tmp_path: Path) -> None:
    assert unseen_files([a_pod(workingDir=str(tmp_path), command=["/bin/sh"])], str(tmp_path / "other")) == ""
