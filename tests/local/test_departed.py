"""Which nodes go, and what is said of the pods that were there."""

from __future__ import annotations

from pathlib import Path

from hekla.local.components import ClusterSettings, node_names
from hekla.local.departed import is_departed, lost_status
from tests.make import pod


def test_only_nodes_that_a_start_makes_and_this_one_did_not_are_gone(tmp_path: Path) -> None:
    before = node_names(ClusterSettings(tmp_path, nodes=3, simulated_nodes=2))
    others = ["local-gpu", "localhost", "simulated", "my-local-1"]
    now = node_names(ClusterSettings(tmp_path, nodes=2, simulated_nodes=1))
    assert [name for name in [*before, *others, ""] if is_departed(name, now)] == ["local-2", "simulated-1"]
    assert all(is_departed(name, ["local"]) for name in before)


def test_what_had_ended_before_keeps_its_end() -> None:
    over = {"name": "first", "ready": False, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    alive = {"name": "second", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    found = pod("p", spec={"nodeName": "local-1"})
    found["status"] = {"phase": "Running", "containerStatuses": [over, alive]}
    first, second = lost_status(found, "2026-01-02T00:00:00Z")["containerStatuses"]
    assert first == over
    assert second["ready"] is False
    assert second["state"]["terminated"]["startedAt"] == "2026-01-01T00:00:00Z"
    assert second["state"]["terminated"]["exitCode"] == 137
