"""What a local cluster cannot be started with is refused before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hekla.errors import Misuse
from hekla.local.components import ClusterSettings


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"nodes": -1}, "--nodes -1: must not be negative"),
        ({"nodes": 0}, "a cluster needs a node"),
        ({"nodes": 100_000}, "--nodes 100000: at most 500, each a process"),
        ({"port": 70000}, "--port 70000: must not be above 65535"),
        ({"node_cpu": "0"}, "--node-cpu 0: must be more than 0"),
        ({"node_memory": "much"}, "--node-memory 'much' is not a quantity"),
        ({"node_memory": "1"}, "--node-memory 1: a number of bytes that no pod fits in; write 512Mi or 8Gi"),
        ({"node_memory": "512m"}, "--node-memory 512m: a number of bytes"),
        ({"node_gpu_memory": 16}, "--node-gpu-memory: of how many GPUs?"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_flag(tmp_path: Path, wrong: dict[str, object], told: str) -> None:
    with pytest.raises(Misuse, match="^" + told.replace("?", "[?]")):
        ClusterSettings(data_dir=tmp_path, **wrong).validate()


@pytest.mark.parametrize("memory", ["1Mi", "64Mi", "8Gi", "1e9", "8000000000"])
def test_memory_in_any_spelling_is_taken(tmp_path: Path, memory: str) -> None:
    ClusterSettings(data_dir=tmp_path, node_memory=memory).validate()
