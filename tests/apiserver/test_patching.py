"""The patches as functions of values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.apiserver.definitions import load_definitions
from hekla.apiserver.patching import PatchRefused, PatchTooLarge, json_patch, merge_patch, strategic_patch

POD = "io.k8s.api.core.v1.Pod"
SERVICE = "io.k8s.api.core.v1.Service"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("current", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": "b"}, {"a": {"c": None, "d": 1}}, {"a": {"d": 1}}),
        ({}, [1], [1]),
    ],
)
def test_merge_patch(current: Any, patch: Any, result: Any) -> None:
    assert merge_patch(current, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9]}),
        ([{"op": "move", "from": "/a", "path": "/c~1d"}], {"c/d": [1, 2]}),
        ([{"op": "copy", "from": "/a/0", "path": "/b"}], {"a": [1, 2], "b": 1}),
        ([{"op": "test", "path": "/a/0", "value": 1}], {"a": [1, 2]}),
        ([{"op": "replace", "path": "", "value": {"x": 1}}], {"x": 1}),
    ],
)
def test_json_patch(operations: list[dict[str, Any]], result: Any) -> None:
    assert json_patch({"a": [1, 2]}, operations) == result


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "remove", "path": "/zz"}],
        [{"op": "replace", "path": "/zz", "value": 1}],
        [{"op": "add", "path": "/zz/y", "value": 1}],
        [{"op": "fly", "path": "/a"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "value": 1}],
        {"op": "add"},
        ["x"],
        [{"op": "copy", "from": "/big", "path": "/b"}] * 10,
        [{"op": "remove", "path": ""}],
        [{"op": "move", "from": "", "path": "/b"}],
        [{"op": "add", "path": "/list/\N{SUPERSCRIPT TWO}", "value": 1}],
        [{"op": "remove", "path": "/list/\N{SUPERSCRIPT TWO}"}],
        [{"op": "remove", "path": f"/list/{'9' * 5000}"}],
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused(operations: Any) -> None:
    with pytest.raises(PatchRefused):
        json_patch({"a": 1, "big": "x" * 500_000, "list": [1, 2, 3]}, operations)


def test_a_json_patch_of_too_many_operations_is_too_large() -> None:
    with pytest.raises(PatchTooLarge):
        json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_changes_nothing_more(current: Any, patch: Any) -> None:
    once = merge_patch(current, patch)
    assert merge_patch(merge_patch(once, {}) if isinstance(once, dict) else once, patch) == once


@given(JSON, st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), JSON, max_size=4), max_size=3))
def test_no_json_patch_fails_in_an_unforeseen_way(document: Any, operations: Any) -> None:
    try:
        json_patch(document, operations)
    except PatchRefused:
        pass


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": name} for name in names]}}


def test_a_strategic_patch_merges_lists_by_their_key() -> None:
    node = load_definitions().node(POD)
    patch = {"spec": {"containers": [{"name": "b", "image": "new"}, {"name": "c", "image": "c"}]}}
    result = strategic_patch(containers("a", "b"), patch, node)
    assert [(each["name"], each["image"]) for each in result["spec"]["containers"]] == [
        ("a", "a"), ("b", "new"), ("c", "c"),
    ]  # fmt: skip


def test_a_strategic_patch_obeys_its_directives() -> None:
    node = load_definitions().node(POD)
    gone = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    assert strategic_patch(containers("a", "b"), gone, node)["spec"]["containers"] == [{"name": "b", "image": "b"}]
    replaced = {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}
    assert strategic_patch(containers("a"), replaced, node)["spec"]["containers"] == [{"name": "z"}]
    primitive = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}
    assert strategic_patch({"metadata": {"finalizers": ["x", "y"]}}, primitive, node)["metadata"]["finalizers"] == ["y"]
    senseless = {"metadata": {"$deleteFromPrimitiveList/finalizers": 3}}
    assert strategic_patch({"metadata": {"finalizers": ["x"]}}, senseless, node)["metadata"]["finalizers"] == ["x"]
    order = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a"}]}}
    names = [each["name"] for each in strategic_patch(containers("a", "b"), order, node)["spec"]["containers"]]
    assert names == ["b", "a"]


def test_a_new_element_comes_before_those_the_patch_does_not_name() -> None:
    service = {"spec": {"ports": [{"port": 1, "name": "p"}]}}
    patch = {"spec": {"ports": [{"port": 2, "name": "q"}]}}
    result = strategic_patch(service, patch, load_definitions().node(SERVICE))
    assert [each["name"] for each in result["spec"]["ports"]] == ["q", "p"]
