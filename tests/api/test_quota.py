from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hekla.api.kinds import Obj
from hekla.api.quota import Scope, read_quota

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def quota(hard: dict[str, str], **spec: object) -> Obj:
    return {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": hard, **spec}}


def pod(**spec: object) -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": [], **spec}, "status": {"qosClass": "BestEffort"}}


def test_what_is_limited_is_sorted_by_whose_it_is_and_the_rest_is_left_out() -> None:
    found = read_quota(quota({"pods": "1", "cpu": "2", "secrets": "3", "example.com/odd": "4"}))
    assert found.names == {"pods": {"pods", "cpu"}, "secrets": {"secrets"}}
    assert {name: str(amount) for name, amount in found.usage("pods", pod(), NOW).items()} == {"pods": "1"}
    assert found.usage("configmaps", {}, NOW) == {}


def test_with_a_scope_only_pods_count() -> None:
    found = read_quota(quota({"pods": "1", "secrets": "3"}, scopes=["BestEffort"]))
    assert found.covers("pods", pod())
    assert not found.covers("secrets", {})


def test_a_status_makes_no_other_quota_of_it() -> None:
    one = quota({"pods": "1"})
    assert read_quota(one) == read_quota({**one, "status": {"used": {"pods": "1"}}})
    assert read_quota(one) != read_quota(quota({"pods": "2"}))


@pytest.mark.parametrize(
    ("operator", "none", "low", "high"),
    [
        ("Exists", False, True, True),
        ("DoesNotExist", True, False, False),
        ("In", False, True, False),
        ("NotIn", True, False, True),
    ],
)
def test_a_priority_class_is_selected_as_a_label_would_be(operator: str, none: bool, low: bool, high: bool) -> None:
    values = frozenset({"low"}) if operator in ("In", "NotIn") else frozenset[str]()
    scope = Scope("PriorityClass", operator, values)
    assert [scope.covers(pod(priorityClassName=name)) for name in ("", "low", "high")] == [none, low, high]


def test_nothing_has_a_property_nobody_knows() -> None:
    assert not Scope("Shiny").covers(pod())
