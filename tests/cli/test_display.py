"""What a followed job prints: its state a line at a time, and what is left of a container's line."""

from __future__ import annotations

import io

import pytest

from hekla.cli.display import PlainDisplay, printable
from tests import make


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain\tüñ", "plain\tüñ"),
        ("\x1b[31mred\x1b[0m\x1b[2J", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("10%\r20%\r30%", "30%"),
        ("windows\r", "windows"),
        ("bell\x07 zero\x00", "bell� zero�"),
    ],
)
def test_nothing_drives_the_terminal_and_what_it_would_show_stays(line: str, expected: str) -> None:
    assert printable(line) == expected


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("Pending", "no pods yet"),
        ("Running", "no pods yet"),
        ("Completing", "no pods left"),
        ("Failed", "no pods left"),
    ],
)
def test_pods_that_were_there_are_not_still_to_come(phase: str, said: str) -> None:
    output = io.StringIO()
    job = {**make.job("j", make.task("ps")), "status": {"state": {"phase": phase}}}
    PlainDisplay(output).changed(job, None, [])
    assert output.getvalue() == f"j: {phase}, ps {said}\n"
