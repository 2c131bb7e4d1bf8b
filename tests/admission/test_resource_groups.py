from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hekla.admission.resource_groups import GroupsFile, default_pod, read_groups
from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import POD
from hekla.errors import UsageError
from tests import make
from tests.admission.test_review import Lookup, review

CONF = """
resourceGroups:
- resourceGroup: management
  object: {key: namespace, value: [mng-ns-1, mng-ns-2]}
  schedulerName: default-scheduler
  labels: {volcano.sh/nodetype: management}
- resourceGroup: cpu
  object: {key: annotation, value: ["volcano.sh/resource-group: cpu", "team: blue"]}
  schedulerName: volcano
  labels: {volcano.sh/nodetype: cpu}
  tolerations: [{key: cpu-only, operator: Exists}]
- resourceGroup: gpu
  labels: {volcano.sh/nodetype: gpu}
  affinity: '{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}'
- resourceGroup: gpu
  schedulerName: never-reached
"""
GROUPS = read_groups(CONF)


def shaped(namespace: str = "default", *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": {"containers": [], **spec}}
    default_pod(pod, namespace, GROUPS)
    return {key: value for key, value in pod["spec"].items() if key != "containers"}


def test_a_pod_goes_where_its_namespace_its_annotation_or_its_own_word_sends_it() -> None:
    management = {"nodeSelector": {"volcano.sh/nodetype": "management"}, "schedulerName": "default-scheduler"}
    assert shaped("mng-ns-2") == management
    blue = shaped(annotations={"team": "blue"})
    assert (blue["schedulerName"], blue["tolerations"]) == ("volcano", [{"key": "cpu-only", "operator": "Exists"}])
    assert "nodeAffinity" in shaped(annotations={"volcano.sh/resource-group": "gpu"})["affinity"]
    assert shaped(annotations={"team": "red"}) == {}


def test_the_first_group_that_matches_is_the_only_one() -> None:
    assert "schedulerName" not in shaped(annotations={"volcano.sh/resource-group": "gpu"})
    assert shaped("mng-ns-1", annotations={"team": "blue"})["schedulerName"] == "default-scheduler"


def test_what_the_pod_says_itself_is_kept_but_for_the_groups_labels_and_scheduler() -> None:
    own = {"affinity": {"podAffinity": {}}, "nodeSelector": {"disk": "ssd", "volcano.sh/nodetype": "any"}}
    found = shaped(annotations={"volcano.sh/resource-group": "gpu"}, **own)
    assert found["affinity"] == {"podAffinity": {}}
    assert found["nodeSelector"] == {"disk": "ssd", "volcano.sh/nodetype": "gpu"}
    blue = shaped(annotations={"team": "blue"}, tolerations=[{"key": "mine"}], schedulerName="other")
    assert [one["key"] for one in blue["tolerations"]] == ["mine", "cpu-only"]
    assert blue["schedulerName"] == "volcano"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("resourceGroups: {a: b}", "resourceGroups"),
        ("resourceGroups: [x]", "resourceGroups[0]"),
        ("resourceGroups: [{object: {key: label}}]", "resourceGroups[0].object.key"),
        ("resourceGroups: [{object: {key: annotation, value: [x]}}]", "resourceGroups[0].object.value"),
        ("resourceGroups: [{affinity: '{'}]", "resourceGroups[0].affinity"),
        ("resourceGroups: [{labels: [a]}]", "resourceGroups[0].labels"),
        ("resourceGroups: [{object: {key: annotation, value: ['a: [b']}}]", "resourceGroups[0].object.value: not YAML"),
        (
            "resourceGroups: [{object: {key: annotation, value: ['!!int x']}}]",
            "resourceGroups[0].object.value: not YAML",
        ),
        ("resourceGroups: [{object: {key: namespace, value: [{a: b}]}}]", "resourceGroups[0].object.value"),
        ("resourceGroups: [{tolerations: [x]}]", "resourceGroups[0].tolerations[0]"),
        ("resourceGroups: [{labels: {a: {b: c}}}]", "resourceGroups[0].labels.a"),
        ("resourceGroups: [{schedulerName: [x]}]", "resourceGroups[0].schedulerName"),
        ("a: [", "not YAML"),
        ("[" * 5000, "not YAML"),
        ("a: !!bool maybe", "not YAML: a value is not what its tag says"),
    ],
)
def test_a_faulty_file_is_refused_with_the_place(text: str, place: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_groups(text)
    assert place in str(refused.value)


def test_a_changed_file_is_read_again_and_a_faulty_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(CONF)
    file = GroupsFile(path)
    assert len(file.groups()) == 4
    path.write_text("resourceGroups: [{resourceGroup: one}]")
    assert [group.name for group in file.groups()] == ["one"]
    path.write_text("resourceGroups: [")
    assert [group.name for group in file.groups()] == ["one"]
    path.unlink()
    assert [group.name for group in file.groups()] == ["one"]
    replacement = tmp_path / "new"
    replacement.write_text("resourceGroups: [{resourceGroup: two}]")
    replacement.replace(path)
    assert [group.name for group in file.groups()] == ["two"]


def test_a_file_that_is_not_text_is_refused_by_name_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=f"^{path}: not text in UTF-8"):
        GroupsFile(path)
    path.write_text(CONF)
    file = GroupsFile(path)
    for odd in (b"\xff\xfe\x00", b"resourceGroups: [{object: {key: annotation, value: ['a: [b']}}]"):
        path.write_bytes(odd)
        assert len(file.groups()) == 4


def test_a_label_that_yaml_reads_as_a_truth_or_a_number_is_the_word_for_it() -> None:
    (group,) = read_groups("resourceGroups: [{labels: {gpu: true, 1: 2}}]")
    assert group.labels == {"gpu": "true", "1": "2"}


def test_a_pod_is_patched_in_a_review(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text(CONF)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    request = review(POD, "CREATE", pod)
    request["request"]["namespace"] = "mng-ns-1"
    without = asyncio.run(VolcanoAdmission(Lookup(make.queue("default"))).mutate(request))
    assert "patch" not in without["response"]
    answer = asyncio.run(VolcanoAdmission(Lookup(), groups=GroupsFile(path)).mutate(request))
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert {"op": "add", "path": "/spec/schedulerName", "value": "default-scheduler"} in patch
