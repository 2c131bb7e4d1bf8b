"""What is said of files that went with their pods."""

from __future__ import annotations

import json
from typing import Any

from hekla.cli.left_files import left_files


def pod(task: str, left: dict[str, Any], **container: str) -> dict[str, Any]:
    used = json.dumps({"main": {"cpuSeconds": 1, "seconds": 1, **left}})
    return {
        "metadata": {"name": task, "annotations": {"volcano.sh/task-spec": task}},
        "spec": {"containers": [{"name": "main", **container}]},
        "status": {"conditions": [{"type": "hekla.dev/Used", "status": "True", "message": used}]},
    }


def test_the_files_of_a_tasks_pods_are_told_together() -> None:
    one = {"filesLeft": 1, "bytesLeft": 3 << 20}
    pods = [pod("trainer", one, workingDir="/home/ann/p"), pod("trainer", one, workingDir="/home/ann/p")]
    [line] = left_files([*pods, pod("logger", {}, workingDir="/home/ann/p")])
    assert line.startswith("what trainer wrote below /home/ann/p (2 files, 6Mi) went with its pods")


def test_a_folder_that_the_image_named_is_not_named() -> None:
    [line] = left_files([pod("trainer", {"filesLeft": 1, "bytesLeft": 12})])
    assert line.startswith("what trainer wrote below its working directory (1 file, 12 bytes) went")


def test_pods_that_wrote_nothing_are_not_spoken_of() -> None:
    assert left_files([pod("trainer", {}), {"metadata": {"name": "young"}, "spec": {}}]) == []
