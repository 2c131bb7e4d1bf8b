"""What pods want of other pods, as read."""

from __future__ import annotations

from typing import Any

from hekla.scheduler.company import read_company
from hekla.scheduler.reading import Shapes

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def seeking(selector: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": selector, **more}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def test_a_pod_that_wants_nothing_of_others_has_no_company() -> None:
    assert read_company({}, "ns", {"app": "a"}) is None
    assert read_company({"affinity": {"podAffinity": {}}}, "ns", {}) is None


def test_a_term_is_about_the_pods_own_namespace_unless_it_says_otherwise() -> None:
    company = read_company(seeking({}), "ns", {})
    assert company is not None
    assert company.sought[0].namespaces == ("ns",)
    everywhere = read_company(seeking({}, namespaceSelector={}), "ns", {})
    assert everywhere is not None
    assert everywhere.sought[0].matches("any", {})


def test_no_selector_matches_nobody_and_an_empty_one_everybody() -> None:
    nobody, everybody = read_company(seeking(None), "ns", {}), read_company(seeking({}), "ns", {})
    assert nobody is not None
    assert everybody is not None
    assert not nobody.sought[0].matches("ns", {})
    assert everybody.sought[0].matches("ns", {})


def test_label_keys_stand_for_the_pods_own_values() -> None:
    company = read_company(seeking({}, matchLabelKeys=["version"]), "ns", {"version": "2"})
    assert company is not None
    assert company.sought[0].matches("ns", {"version": "2"})
    assert not company.sought[0].matches("ns", {"version": "1"})


def test_pods_of_one_template_share_a_shape_whatever_their_other_labels() -> None:
    shapes, spec = Shapes(), {"containers": [], **seeking({"matchLabels": {"app": "a"}})}
    first = shapes.shape_of(spec, "ns", {"app": "a", "index": "0"})
    assert shapes.shape_of(spec, "ns", {"app": "a", "index": "1"}) is first
    assert shapes.shape_of(spec, "ns", {"app": "b"}) is not first
    assert shapes.shape_of(spec, "elsewhere", {"app": "a"}) is not first
