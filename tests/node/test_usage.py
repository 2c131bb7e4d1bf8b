"""What a child used. Each has a parent of its own: the kernel counts all the children a process has had together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHIM = """
import json, os, sys
from hekla.node.usage import standing_of, used_by_child
ballast = bytearray(100 << 20)
(ready, tell_ready), (waiting, go) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.write(tell_ready, b"1")
    os.read(waiting, 1)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
os.read(ready, 1)
standing = standing_of(child)
os.write(go, b"1")
os.waitpid(child, 0)
print(json.dumps(used_by_child(standing, sys.argv[2:])))
"""
BUSY = "import time\nwhile time.process_time() < 0.5: pass"
LARGE = "x = bytearray(200 << 20)"


def used(command: str, *cgroups: Path) -> Any:
    done = subprocess.run([sys.executable, "-c", SHIM, command, *cgroups], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_seconds_of_cpu_are_counted() -> None:
    assert 0.4 < used(BUSY)["cpuSeconds"] < 5


def test_the_memory_of_the_largest_process_is_told_its_children_included() -> None:
    inside = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{LARGE}'])"
    for command in (LARGE, inside):
        assert 200 << 20 < used(command)["memory"] < 400 << 20


def test_of_a_process_smaller_than_its_parent_was_only_a_bound_is_known() -> None:
    found = used("pass")
    assert "memory" not in found
    assert 100 << 20 < found["memoryBelow"] < 200 << 20


@pytest.mark.parametrize("name", ["memory.peak", "memory.max_usage_in_bytes"])
def test_a_control_group_knows_better(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("12345\n")
    assert used(LARGE, tmp_path)["memory"] == 12345
