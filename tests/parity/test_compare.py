"""The comparison itself: what it notices, and what it lets pass."""

from __future__ import annotations

from typing import Any

from tests.parity.compare import Explanation, differences, judge
from tests.parity.placeholders import Placeholders


def paths(recorded: Any, found: Any) -> list[str]:
    return [one.path for one in differences(recorded, found)]


def test_items_are_matched_by_name_and_their_order_counts() -> None:
    a, b = {"name": "a", "x": 1}, {"name": "b"}
    assert paths([a, b], [{**a, "x": 2}, b]) == ["name=a/x"]
    assert paths([a, b], [b, a]) == [" (order)"]
    assert paths([a], [a, b]) == ["name=b"]


def test_what_upstream_itself_varies_is_not_compared() -> None:
    recorded = {"events": {"Job/x": ["a"], "Job/y": ["b"]}, "varies": [{"path": "events/Job/x/0"}]}
    assert judge("case", recorded, {"events": {"Job/x": ["z"], "Job/y": ["b"]}}, []).unexplained == []
    assert judge("case", recorded, {"events": {"Job/x": ["a"], "Job/y": ["z"]}}, []).unexplained != []


def test_an_explanation_is_used_where_it_fits_and_nowhere_else() -> None:
    reason = Explanation("meant", ["objects/*/status"], ["b-*"])
    recorded, found = {"objects": {"x": {"status": 1}}}, {"objects": {"x": {"status": 2}}}
    assert judge("b-1", recorded, found, [reason]).unexplained == []
    assert judge("c-1", recorded, found, [reason]).unexplained != []
    assert reason.used == 1


def test_names_made_of_uids_are_told_by_what_they_belong_to() -> None:
    job = {"metadata": {"name": "demo", "uid": "0000-1111"}, "spec": {}}
    group = {"metadata": {"name": "demo-0000-1111", "uid": "2222-3333"}}
    names = Placeholders([("jobs", "ADDED", job), ("podgroups", "ADDED", group)], ["node-1"])
    assert names.text("demo-0000-1111 on node-1") == "demo-<uid:Job/demo> on <node>"
    assert names.text("2222-3333") == "<uid:PodGroup/demo-<uid:Job/demo>>"
    assert names.value({"startTime": "2030-01-01T00:00:00Z", "podIP": "10.0.0.1"}) == {
        "startTime": "<time>",
        "podIP": "<ip>",
    }
