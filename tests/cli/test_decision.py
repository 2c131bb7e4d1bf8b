"""What the scheduler says of a group, as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.cli.decision import print_decision

CPU = {"name": "cpu", "asked": "4", "held": "6", "deserved": "6"}
DECISION: dict[str, Any] = {
    "group": {"namespace": "default", "name": "train-1"},
    "queue": "q",
    "reason": "QueueOverQuota",
    "queues": [
        {"name": "q", "resources": [{**CPU, "limit": "8", "left": "2"}]},
        {"name": "root", "resources": [CPU]},
    ],
}


def lines(decision: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_decision(decision)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line]


def test_the_arithmetic_of_queues_has_a_dash_where_there_is_no_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(DECISION, capsys) == [
        "QUEUE RESOURCE JOB ASKS HELD DESERVED LIMIT LEFT",
        "q cpu 4 6 6 8 2",
        "root cpu 4 6 6 - -",
    ]


def test_amounts_of_memory_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    memory = {"name": "memory", "asked": "192Mi", "held": "0", "deserved": "1288490189", "limit": "24684092Ki"}
    (_, told) = lines({**DECISION, "queues": [{"name": "q", "resources": [{**memory, "left": "24684092Ki"}]}]}, capsys)
    assert told == "q memory 192Mi 0 1.2Gi 23.5Gi 23.5Gi"


def test_what_groups_have_asked_for_that_were_let_in_is_part_of_the_arithmetic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    queues = [{"name": "q", "resources": [{**CPU, "letIn": "2", "limit": "9", "left": "1"}]}]
    assert lines({**DECISION, "queues": queues}, capsys) == [
        "QUEUE RESOURCE JOB ASKS HELD LET IN DESERVED LIMIT LEFT",
        "q cpu 4 6 2 6 9 1",
    ]


def test_amounts_of_queues_are_left_out_where_they_are_not_the_matter(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines({**DECISION, "reason": "NoNodeMatches"}, capsys) == []


@pytest.mark.parametrize(
    ("count", "named", "said"),
    [
        (1, ["a"], "1 waiting job is ahead of it in queue q: a"),
        (2, ["a", "b"], "2 waiting jobs are ahead of it in queue q: a, b"),
        (7, ["a", "b"], "7 waiting jobs are ahead of it in queue q: a, b, …"),
    ],
)
def test_who_is_ahead_is_named(count: int, named: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = [{"namespace": "default", "name": f"{name}-uid", "job": name, "priority": 0} for name in named]
    assert said in lines({**DECISION, "ahead": {"count": count, "first": first}}, capsys)


def test_those_of_other_namespaces_and_without_a_job_are_named_so(capsys: pytest.CaptureFixture[str]) -> None:
    first = [
        {"namespace": "team", "name": "a-uid", "job": "a", "priority": 0},
        {"namespace": "default", "name": "bare", "job": "", "priority": 0},
    ]
    said = lines({**DECISION, "ahead": {"count": 2, "first": first}}, capsys)[-1]
    assert said.endswith(": team/a, bare")
