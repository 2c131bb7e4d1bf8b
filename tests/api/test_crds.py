from __future__ import annotations

import json
from typing import Any

import pytest

from hekla.api.crds import load_crds
from hekla.api.kinds import VOLCANO_KINDS


@pytest.fixture(scope="module")
def crds() -> dict[str, dict[str, Any]]:
    return {crd["spec"]["names"]["kind"]: crd for crd in load_crds()}


def schema(crds: dict[str, dict[str, Any]], kind: str, *path: str) -> Any:
    found: Any = crds[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path:
        found = found["items"] if step == "[]" else found["properties"][step]
    return found


def test_every_volcano_kind_has_a_definition_of_its_own_name(crds: dict[str, dict[str, Any]]) -> None:
    assert {crd["metadata"]["name"] for crd in crds.values()} == {kind.resource for kind in VOLCANO_KINDS}


def test_no_reference_and_no_marker_is_left(crds: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(list(crds.values()))
    assert "$ref" not in text
    assert "x-hekla-type" not in text


def test_a_definition_stays_far_below_the_size_of_an_object(crds: dict[str, dict[str, Any]]) -> None:
    assert max(len(json.dumps(crd)) for crd in crds.values()) < 200_000


def test_the_pod_template_is_whole_and_catches_two_containers_of_one_name(crds: dict[str, dict[str, Any]]) -> None:
    containers = schema(crds, "Job", "spec", "tasks", "[]", "template", "spec", "containers")
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["items"]["properties"]["resources"]["properties"]["limits"]["additionalProperties"][
        "x-kubernetes-int-or-string"
    ]
    assert "containers" in schema(crds, "Job", "spec", "tasks", "[]", "template", "spec")["required"]


def test_embedded_metadata_is_limited_to_what_a_template_may_carry(crds: dict[str, dict[str, Any]]) -> None:
    metadata = schema(crds, "Job", "spec", "tasks", "[]", "template", "metadata")
    assert sorted(metadata["properties"]) == ["annotations", "finalizers", "labels", "name", "namespace"]


def test_our_own_fields_are_explained(crds: dict[str, dict[str, Any]]) -> None:
    for field, inner in schema(crds, "Job", "spec")["properties"].items():
        assert inner.get("description"), field
    for field, inner in schema(crds, "Job", "spec", "tasks", "[]")["properties"].items():
        assert inner.get("description"), field


@pytest.mark.parametrize(
    ("kind", "path", "default"),
    [
        ("Job", ("spec", "queue"), "default"),
        ("Job", ("spec", "maxRetry"), 3),
        ("Job", ("spec", "networkTopology", "mode"), "hard"),
        ("CronJob", ("spec", "jobTemplate", "spec", "queue"), "default"),
        ("CronJob", ("spec", "concurrencyPolicy"), "Allow"),
        ("CronJob", ("spec", "successfulJobsHistoryLimit"), 3),
        ("JobTemplate", ("spec", "maxRetry"), 3),
        ("Queue", ("spec", "weight"), 1),
        ("Queue", ("spec", "dequeueStrategy"), "traverse"),
        ("PodGroup", ("spec", "queue"), "default"),
        ("PodGroup", ("spec", "subGroupPolicy", "[]", "subGroupSize"), 1),
        ("ColocationConfiguration", ("spec", "memoryQos", "highRatio"), 100),
        ("ColocationConfiguration", ("spec", "memoryQos", "minRatio"), 0),
    ],
)
def test_defaults_are_upstreams(
    crds: dict[str, dict[str, Any]], kind: str, path: tuple[str, ...], default: Any
) -> None:
    assert schema(crds, kind, *path)["default"] == default


def test_only_kinds_that_say_so_have_a_status_of_their_own(crds: dict[str, dict[str, Any]]) -> None:
    without = {kind for kind, crd in crds.items() if "status" not in crd["spec"]["versions"][0]["subresources"]}
    assert without == {"PodGroup", "Command", "Numatopology"}


def test_keys_of_keyed_lists_are_required_or_have_a_default(crds: dict[str, dict[str, Any]]) -> None:
    for crd in crds.values():
        _check_keys(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def _check_keys(node: Any) -> None:
    if isinstance(node, dict):
        for key in node.get("x-kubernetes-list-map-keys", ()):
            item = node["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key]
        for inner in node.values():
            _check_keys(inner)
    elif isinstance(node, list):
        for inner in node:
            _check_keys(inner)
