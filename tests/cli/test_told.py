"""What an Event says, as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.cli.told import told

UID = "5192e55f-b191-4f64-ad6b-7c80995ee675"
EVICTED: dict[str, Any] = {
    "message": "Pod is evicted, because of preempt\n",
    "involvedObject": {"kind": "Pod", "name": "low-worker-0", "namespace": "default"},
}


@pytest.mark.parametrize(
    ("related", "said"),
    [
        (None, ""),
        ({"kind": "PodGroup", "name": f"urgent-{UID}", "namespace": "default"}, " (for urgent)"),
        ({"kind": "PodGroup", "name": f"urgent-{UID}", "namespace": "team"}, " (for team/urgent)"),
        ({"kind": "PodGroup", "name": "by-hand", "namespace": "default"}, " (for by-hand)"),
        ({"kind": "Node", "name": "n1"}, ""),
    ],
)
def test_an_eviction_says_for_whom(related: dict[str, str] | None, said: str) -> None:
    event = {**EVICTED, "related": related} if related else EVICTED
    assert told(event) == f"Pod is evicted, because of preempt{said}"
