"""What many pods have in common is told once."""

from __future__ import annotations

from hekla.cli.alike import told_together


def test_a_few_pods_have_a_line_each() -> None:
    lines = [f"a-{number}: Error, exit code 1" for number in range(3)]
    assert told_together(lines) == lines


def test_two_containers_of_a_pod_that_ended_alike_are_one_line() -> None:
    assert told_together(["a-0: Error, exit code 1", "a-0: Error, exit code 1"]) == ["a-0: Error, exit code 1"]


def test_many_that_ended_alike_share_a_line_and_the_one_that_did_not_has_its_own() -> None:
    lines = [f"a-{number}: Error, exit code {137 if number == 40 else 1}" for number in range(100)]
    assert told_together(lines) == ["a-0, a-1, a-2 and 96 more: Error, exit code 1", "a-40: Error, exit code 137"]


def test_of_many_that_ended_differently_the_first_are_told_and_the_rest_counted() -> None:
    lines = [f"a-{number}: Error, exit code 1: rank {number} lost its peer" for number in range(100)]
    assert told_together(lines) == [*lines[:20], "… and 80 more"]
