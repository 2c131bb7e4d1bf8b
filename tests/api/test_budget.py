from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hekla.api.budget import counted, read_budget, spent, uncounted
from hekla.api.kinds import Obj

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def budget(status: Any = None, **spec: Any) -> Obj:
    metadata = {"name": "b", "namespace": "n", "generation": 3}
    return {"metadata": metadata, "spec": {"selector": {}, **spec}, "status": status or {}}


def pod(name: str, created: str = "2030-01-01T11:00:00Z") -> Obj:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "creationTimestamp": created}, "status": status}


@pytest.mark.parametrize(
    ("spec", "expected", "desired"),
    [
        ({"minAvailable": 3}, 1, 3),
        ({"minAvailable": "50%"}, 3, 2),
        ({"minAvailable": "0%"}, 3, 0),
        ({"maxUnavailable": 1}, 3, 2),
        ({"maxUnavailable": 5}, 3, 0),
        ({"maxUnavailable": "1%"}, 3, 2),
        ({"maxUnavailable": "100%"}, 3, 0),
        ({}, 3, 0),
    ],
)
def test_parts_are_rounded_up(spec: Obj, expected: int, desired: int) -> None:
    assert read_budget(budget(**spec)).desired(expected) == desired


def test_a_budget_without_selector_covers_nothing_and_one_with_an_empty_one_everything() -> None:
    assert read_budget(budget()).covers(pod("p"))
    assert not read_budget({**budget(), "spec": {}}).covers(pod("p"))


def test_an_evicted_pod_is_not_counted_until_patience_ends() -> None:
    noted = {"disruptedPods": {"a": "2030-01-01T12:00:00Z", "gone": "2030-01-01T12:00:00Z"}}
    read = read_budget(budget(noted, minAvailable=1))
    status, moment = counted(read, [pod("a"), pod("b")], 2, NOW)
    assert (status["currentHealthy"], status["disruptedPods"]) == (1, {"a": "2030-01-01T12:00:00Z"})
    assert moment == NOW + timedelta(minutes=2)
    status, moment = counted(read, [pod("a"), pod("b")], 2, NOW + timedelta(seconds=121))
    assert (status["currentHealthy"], status.get("disruptedPods"), moment) == (2, None, None)
    status, _ = counted(read, [pod("a", created="2030-01-01T12:00:01Z")], 1, NOW)
    assert status["currentHealthy"] == 1


def test_the_condition_keeps_its_time_while_it_says_the_same() -> None:
    first, _ = counted(read_budget(budget(minAvailable=1)), [pod("a"), pod("b")], 2, NOW)
    later = NOW + timedelta(hours=1)
    again, _ = counted(read_budget(budget(first, minAvailable=1)), [pod("a"), pod("b")], 2, later)
    assert again == first
    (condition,) = spent(read_budget(budget(first, minAvailable=1)), "a", later)["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("False", "2030-01-01T13:00:00Z")


def test_what_cannot_be_counted_allows_nothing_and_says_why() -> None:
    known = {"observedGeneration": 2, "disruptionsAllowed": 4, "currentHealthy": 5}
    status = uncounted(read_budget(budget(known)), "no idea", NOW)
    (condition,) = status.pop("conditions")
    assert status == {**known, "disruptionsAllowed": 0}
    assert (condition["reason"], condition["message"], condition["observedGeneration"]) == ("SyncFailed", "no idea", 2)
