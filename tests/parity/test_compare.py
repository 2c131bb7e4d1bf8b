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

DECISION = next((HERE.parents[1] / "docs/decisions").glob("0012*"))


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


def test_events_are_compared_by_their_texts_and_by_which_is_told_first() -> None:
    assert told(["a", "b"], ["b", "a"]) == ["events/Job/x (order)"]
    assert told(["a", "b", "c"], ["a", "d", "c", "a"]) == ["events/Job/x/b", "events/Job/x/d"]
    assert told(["a"], ["a", "b/c"]) == ["events/Job/x/b/c"]
    assert told([], ["a"]) == told(["a"], []) == ["events/Job/x/a"]


def test_an_event_that_only_some_of_upstreams_runs_told_may_be_told_or_not() -> None:
    varies = {"path": "events/Job/x/1", "seen": ["b", "c"]}
    assert told(["a", "b"], ["a", "c"], varies) == []
    assert told(["a", "b"], ["a", "d"], varies) == ["events/Job/x/d"]
    assert told(["a", "b", "e"], ["b", "a", "e"], varies) == []
    assert told(["a", "b", "e"], ["e", "b", "a"], varies) == ["events/Job/x (order)"]


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


def test_every_explanation_begins_with_a_number_that_can_be_looked_up() -> None:
    argued = set(re.findall(r"^- \*\*([PE]\d+)\b", DECISION.read_text(), re.MULTILINE))
    used = set()
    for entry in yaml.safe_load((HERE / "differences.yaml").read_text()):
        labels = re.match(r"[QBAPE]\d+(?:, [QBAPE]\d+)*(?=: )", entry["reason"])
        assert labels, entry["reason"]
        used |= {label for label in labels[0].split(", ") if label[0] in "PE"}
    assert used - argued == set()
    assert argued - used == set(), "argued for, and no recording shows it"


def covered(case: str, path: str, recorded: Any, found: Any, **whole: Any) -> bool:
    """Whether one of our explanations covers this difference; `whole`: more of what was found."""
    explanations = read_explanations(HERE / "differences.yaml", "local")
    return any(one.covers(case, Difference(path, recorded, found), whole) for one in explanations)


@pytest.mark.parametrize(("made", "expected"), [(2, True), (3, False), (4, False), (None, False)])
def test_that_upstream_makes_a_pod_once_more_explains_no_other_number(made: int | None, expected: bool) -> None:
    assert covered("e-podfailed-restartpod-exhausted", "history/made anew/Pod/demo-a-0", 3, made) is expected


def test_that_upstream_counts_its_looks_explains_no_version_of_ours_that_is_not_smaller() -> None:
    versions = [None, *range(1, 13)]
    path = "objects/jobs/demo/status/version"
    explained = {(old, new) for old in versions for new in versions if covered("e-suspend", path, old, new)}
    assert explained == {(3, 1), (3, 2)}


def ended_pod(task: str, phase: str) -> dict[str, Any]:
    annotations = {"volcano.sh/job-name": "demo", "volcano.sh/task-spec": task}
    return {"metadata": {"annotations": annotations}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("field", "found", "expected"),
    [
        ("succeeded", 2, True),
        ("succeeded", 1, False),
        ("failed", 1, True),
        ("failed", 2, False),
        ("taskStatusCount", {"a": {"phase": {"Failed": 1, "Succeeded": 1}}, "b": {"phase": {"Succeeded": 1}}}, True),
        ("taskStatusCount", {"a": {"phase": {"Succeeded": 1, "Running": 1}}}, False),
    ],
)
def test_that_finished_pods_stay_counted_explains_no_count_but_theirs(field: str, found: Any, expected: bool) -> None:
    ended = [("a", "Succeeded"), ("a", "Failed"), ("b", "Succeeded"), ("b", "Running")]
    pods = {str(number): ended_pod(*one) for number, one in enumerate(ended)}
    assert covered("e-suspend", f"objects/jobs/demo/status/{field}", None, found, objects={"pods": pods}) is expected


@pytest.mark.parametrize(("replicas", "expected"), [(2, True), (3, False)])
def test_that_hosts_follow_scaling_explains_no_list_but_that_of_the_hosts(replicas: int, expected: bool) -> None:
    jobs = {"demo": {"spec": {"tasks": [{"name": "a", "replicas": replicas}]}}}
    hosts = "".join(f"Host demo-a-{index}\n  HostName demo-a-{index}.demo\n  Port 22\n" for index in range(2))
    config = f"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n{hosts}"
    path = "objects/secrets/demo-ssh/data/config"
    assert covered("e-scale-up", path, "before", config, objects={"jobs": jobs}) is expected


@pytest.mark.parametrize(
    ("path", "recorded", "found"),
    [
        ("history/podgroups/x/0", "(none) > Inqueue > Running", "(none) > Inqueue > Running > Unknown"),
        ("objects/podgroups/x/status/conditions/type=Unschedulable", None, {"type": "Unschedulable"}),
        ("events/PodGroup/x/Warning Unschedulable: 0/3 tasks in gang unschedulable: pod group is not ready, 1 Failed, "
         "2 Running, 3 minAvailable", None, "told"),
        ("events/Job/demo/Warning PodGroupPending: PodGroup x:demo unschedulable, reason: 1/3 tasks in gang "
         "unschedulable: pod group is not ready, 1 Failed, 2 Running, 3 minAvailable", None, "told"),
    ],
)  # fmt: skip
def test_that_a_gang_is_said_to_have_lost_pods_though_its_job_has_decided_is_explained_by_nothing(
    path: str, recorded: Any, found: Any
) -> None:
    assert not covered("e-podfailed-abortjob", path, recorded, found)
