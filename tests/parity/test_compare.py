"""The comparison itself: what it notices, and what it lets pass."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.parity.compare import Difference, Explanation, differences, judge, read_explanations
from tests.parity.placeholders import Placeholders
from tests.parity.replay import HERE


def paths(recorded: Any, found: Any) -> list[str]:
    return [one.path for one in differences(recorded, found)]


def test_items_are_matched_by_name_and_their_order_counts() -> None:
    a, b = {"name": "a", "x": 1}, {"name": "b"}
    assert paths([a, b], [{**a, "x": 2}, b]) == ["name=a/x"]
    assert paths([a, b], [b, a]) == [" (order)"]
    assert paths([a], [a, b]) == ["name=b"]


def test_what_upstream_itself_varies_is_not_compared() -> None:
    recorded = {"objects": {"x": {"version": 3}, "y": 1}, "varies": [{"path": "objects/x/version", "seen": [3, 4]}]}
    assert judge("case", recorded, {"objects": {"x": {"version": 9}, "y": 1}}, []).unexplained == []
    assert judge("case", recorded, {"objects": {"x": {"version": 3}, "y": 2}}, []).unexplained != []


def told(recorded: list[str], found: list[str], *varies: dict[str, Any]) -> list[str]:
    before, after = {"events": {"Job/x": recorded}, "varies": list(varies)}, {"events": {"Job/x": found}}
    return [one.path for one in judge("case", before, after, []).unexplained]


def test_events_are_compared_as_a_set() -> None:
    assert told(["a", "b"], ["b", "a"]) == []
    assert told(["a"], ["a", "b/c"]) == ["events/Job/x/b/c"]
    assert told([], ["a"]) == told(["a"], []) == ["events/Job/x/a"]


def test_an_event_that_only_some_of_upstreams_runs_told_may_be_told_or_not() -> None:
    varies = {"path": "events/Job/x/1", "seen": ["b", "c"]}
    assert told(["a", "b"], ["a", "c"], varies) == []
    assert told(["a", "b"], ["a", "d"], varies) == ["events/Job/x/d"]


def test_a_dump_of_a_go_error_is_read_as_the_words_in_it() -> None:
    dump = 'Error: [x, err: &errors.StatusError{ErrStatus:v1.Status{A:v1.B{}, Message:"\\"y\\" is bad", Code:422}}]'
    assert told([dump, f"(combined from similar events): {dump}"], ['Error: [x, err: "y" is bad]']) == []


def test_an_explanation_is_used_where_it_fits_and_nowhere_else() -> None:
    reason = Explanation("meant", "objects/*/status", "b-*", found="2")
    recorded, found = {"objects": {"x": {"status": 1}}}, {"objects": {"x": {"status": 2}}}
    assert judge("b-1", recorded, found, [reason]).unexplained == []
    assert judge("c-1", recorded, found, [reason]).unexplained != []
    assert judge("b-1", recorded, {"objects": {"x": {"status": 3}}}, [reason]).unexplained != []
    assert reason.used == 1


def test_an_explanation_of_one_cluster_is_not_known_on_the_other(tmp_path: Path) -> None:
    (tmp_path / "all").write_text("[{reason: a, path: x}, {reason: b, path: x, cluster: local}]")
    assert [one.reason for one in read_explanations(tmp_path / "all", "local")] == ["a", "b"]
    assert [one.reason for one in read_explanations(tmp_path / "all", "real")] == ["a"]


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


def test_no_explanation_of_ours_covers_whatever_there_is() -> None:
    for entry in yaml.safe_load((HERE / "differences.yaml").read_text()):
        if not entry.get("coarse"):
            assert entry.get("case") or entry.get("recorded") or entry.get("found"), entry["reason"]
            assert entry["path"] not in ("*", "objects/*", "events/*", "history/*", "answers/*"), entry["reason"]


def test_what_is_coarse_is_about_events_alone() -> None:
    coarse = [entry for entry in yaml.safe_load((HERE / "differences.yaml").read_text()) if entry.get("coarse")]
    assert coarse
    assert [entry for entry in coarse if entry["path"].partition("/")[0] != "events"] == []
    exact = {one.path for one in read_explanations(HERE / "differences.yaml", "local")}
    assert exact.isdisjoint({"events", "events/Job/*"})


@pytest.mark.parametrize("cluster", ["local", "real"])
def test_every_explanation_begins_with_the_register_that_names_it(cluster: str) -> None:
    reasons = [one.reason for one in read_explanations(HERE / "differences.yaml", cluster)]
    assert [reason for reason in reasons if not re.match(r"(?:[QBA]\d+|P|E)[,:]", reason)] == []


@pytest.mark.parametrize(("made", "covered"), [(2, True), (4, False)])
def test_that_upstream_makes_a_pod_once_more_explains_no_pod_of_ours_that_it_does_not_make(
    made: int, covered: bool
) -> None:
    explanations = read_explanations(HERE / "differences.yaml", "local")
    recorded, found = ({"history": {"made anew": {"Pod/demo-a-0": count}}} for count in (3, made))
    verdict = judge("e-podfailed-restartpod-exhausted", recorded, found, explanations)
    assert (verdict.unexplained == []) is covered


@pytest.mark.parametrize("cluster", ["local", "real"])
def test_that_upstream_counts_its_looks_explains_no_version_of_ours_that_is_not_smaller(cluster: str) -> None:
    explanations = read_explanations(HERE / "differences.yaml", cluster)
    versions = [None, *range(1, 13)]
    covered = {
        (recorded or 0, found or 0)
        for recorded in versions
        for found in versions
        for one in explanations
        if one.covers("e-suspend", Difference("objects/jobs/demo/status/version", recorded, found))
    }
    assert {(3, 1), (3, 2), (10, 3)} <= covered
    assert not [(recorded, found) for recorded, found in covered if not 0 < found < recorded]
